"""Softmax and its logarithm that files spell out are the operators that they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs, get
from circlet.ops.softmax import SoftmaxAttrs
from circlet.ops.verify import op_violations
from circlet.passes.cone import ELEMENTWISE, Cone, Reals, apart, cones
from circlet.passes.rewriter import Rewriter

TOLERANCE = 1e-5
_SIZED = frozenset({"RESHAPE", "BROADCAST_TO"})  # their results have sizes of their own
_KINDS = ELEMENTWISE | _SIZED | {"EXPAND_DIMS", "REDUCE_MAX", "SUM", "LOG"}
_MOST_OPS, _MOST_SAMPLES = 14, 1 << 21
_MAGNITUDES = (1.0, 300.0, 1e-3, 30.0)
_MASKED = -1e9  # what masks put in the place of a score


@dataclass(frozen=True)
class RecogniseSoftmax:
    """Make a SOFTMAX or LOG_SOFTMAX of ops that compute the same along the last axis.

    Before: `e = EXP(SUB(x, REDUCE_MAX(x)))`, `DIV(e, SUM(e))`. After: `SOFTMAX(x)`. With reshapes
    between, reciprocals, or whatever else a file has there: what the ops compute is compared with
    the operator over rows of several magnitudes, some of them masked, where both must agree to 1e-5
    of the largest value of the row. Powers whose argument is not made small first overflow where
    SOFTMAX does not, and stay.
    """

    name = "recognise-softmax"
    needs = frozenset({"EXP"})
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Replace the largest groups of ops that are one of both."""
        rewriter = Rewriter(graph)
        known: dict[Hashable, bool] = {}

        def recognise(cone: Cone) -> Op | None:
            fresh, sizes = _made(cone), _sample_sizes(cone)
            if sizes is None or next(op_violations(fresh, graph), None) is not None:
                return None
            key = (sizes, cone.key())
            if key not in known:
                known[key] = _agree(cone, fresh.kind, sizes)
            return fresh if known[key] else None

        for cone, fresh in apart(graph.ops, lambda op: _candidates(op, rewriter), recognise):
            rewriter.replace(cone.ops, fresh)
        return rewriter.finish()


def _candidates(op: Op, rewriter: Rewriter) -> Iterator[Cone]:
    """The cones that end in an op and have what either has."""
    if op.kind not in ("DIV", "MUL", "SUB") or len(op.inputs) != 2:
        return
    before = {made.kind for made in map(rewriter.producer, op.inputs) if made is not None}
    if op.kind != "SUB" and "EXP" not in before:
        return
    for cone in cones(op, rewriter, _KINDS, _MOST_OPS):
        if cone.source.has_rank and cone.result.shape == cone.source.shape:
            needed = {"EXP", "SUM", "LOG"} if op.kind == "SUB" else {"EXP", "SUM"}
            if needed <= cone.labels and cone.readings > 1:
                yield cone


def _made(cone: Cone) -> Op:
    """The operator that a cone may be."""
    return _operator(_kind(cone), cone.source, cone.result, cone.ops[-1].origin)


def _kind(cone: Cone) -> str:
    return "LOG_SOFTMAX" if cone.ops[-1].kind == "SUB" else "SOFTMAX"


def _operator(kind: str, source: Tensor, result: Tensor, origin: Origin) -> Op:
    attrs = SoftmaxAttrs(1.0) if kind == "SOFTMAX" else NoAttrs()
    return Op(kind, [source], [result], attrs, origin)


def _sample_sizes(cone: Cone) -> tuple[int, ...] | None:
    """Sizes of samples; None where they are open or large.

    They are the source's where ops have sizes of their own, else so few that axes still differ.
    """
    shape = cone.source.shape
    if not shape or shape[-1] is None:
        return None
    few = (*(1 if size == 1 else 2 for size in shape[:-1]), shape[-1])
    sizes = shape if cone.labels & _SIZED else few
    known = tuple(size for size in sizes if size is not None)
    fits = len(known) == len(sizes) and 0 < prod(known) <= _MOST_SAMPLES
    return known if fits else None


def _agree(cone: Cone, kind: str, sizes: tuple[int, ...]) -> bool:
    """Whether a cone and an operator compute the same of rows of every magnitude."""
    rows = prod(sizes[:-1])
    turns = 1 if rows >= len(_MAGNITUDES) else len(_MAGNITUDES)
    return all(_agree_on(cone, kind, _samples(sizes, turn)) for turn in range(turns))


def _agree_on(cone: Cone, kind: str, samples: Reals) -> bool:
    values = cone.evaluate(samples)
    if values is None or values.shape != samples.shape:
        return False
    source = constant("samples", samples)
    op = _operator(kind, source, source.like(), Origin.of(0, "samples"))
    wanted = np.asarray(get(op).evaluate(op, [samples])[0], np.float64)
    largest = np.abs(wanted).max(-1, keepdims=True)
    return bool(np.all(np.abs(values - wanted) <= TOLERANCE * largest))


def _samples(sizes: tuple[int, ...], turn: int) -> Reals:
    """Rows of magnitudes in turn, from some number on; elements of every third are masked."""
    generator = np.random.default_rng(turn)
    values = generator.normal(0.25, 1, (prod(sizes[:-1]), sizes[-1]))
    magnitudes = np.resize(np.roll(_MAGNITUDES, -turn), len(values))
    values *= magnitudes[:, None]
    masked = generator.random(values.shape) < 0.25
    masked[np.arange(len(values)) % 3 != 2] = False
    values[masked] = _MASKED
    return values.astype(np.float32).reshape(sizes)
