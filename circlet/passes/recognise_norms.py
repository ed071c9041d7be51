"""Normalisations that files spell out are the operators that Circle files have for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.circle_norm import InstanceNormAttrs, RmsNormAttrs
from circlet.ops.reduce import constant_axes
from circlet.passes.cone import ELEMENTWISE, Cone, Reals, apart, cones
from circlet.passes.match import scalar_of
from circlet.passes.rewriter import Rewriter

TOLERANCE = 1e-5
_REDUCTIONS = frozenset({"MEAN", "SUM"})
_KINDS = ELEMENTWISE | _REDUCTIONS
_ROOTS = frozenset({"SQRT", "RSQRT", "POW"})
_MOST_OPS, _MOST_SAMPLES, _MOST_CONSTANTS, _LARGEST_EPSILON = 20, 1 << 18, 8, 0.1
_SMALL_IMAGE = (5, 7)
_MAGNITUDES = (1e-3, 0.03, 30.0, 5.0, 1.0)


@dataclass(frozen=True)
class Norm:
    """A normalisation: its kind and attributes, and the constants that scale and move it.

    Attributes:
        gamma: Of channels, or of one element.
        beta: So, too.
    """

    kind: str
    attrs: InstanceNormAttrs | RmsNormAttrs
    gamma: Reals
    beta: Reals

    def over(self, source: Tensor, result: Tensor, origin: Origin) -> Op:
        """The op that computes it; an RMS_NORM that moves nothing has no third input."""
        inputs: list[Tensor | None] = [source, constant(f"{result.name}/gamma", self.gamma)]
        if self.kind == "INSTANCE_NORM" or self.beta.any():
            inputs.append(constant(f"{result.name}/beta", self.beta))
        return Op(self.kind, inputs, [result], self.attrs, origin)


@dataclass(frozen=True)
class RecogniseNorms:
    """Make an INSTANCE_NORM or RMS_NORM of ops that compute the same; .circle files hold these.

    Before: `MUL(x, RSQRT(ADD(MEAN(SQUARE(x)), e)))`, `MUL(gamma)`. After: `RMS_NORM(x, gamma)`. In
    whatever order a file has it: what the ops compute is compared with the normalisation over
    samples of several magnitudes, also ones so small that epsilon counts, where both must agree to
    1e-5 of the largest value. Normalisations over images are over rows and columns of
    [n, h, w, c]; RMS_NORM is over the last axis.
    """

    name = "recognise-norms"
    needs = _REDUCTIONS
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Replace the largest groups of ops that are normalisations."""
        rewriter = Rewriter(graph)
        found = [pair for op in graph.ops for pair in _norms(op, rewriter)]
        for cone, norm in apart(found):
            fresh = norm.over(cone.source, cone.result, cone.ops[-1].origin)
            rewriter.replace(cone.ops, fresh)
        return rewriter.finish()


def _norms(op: Op, rewriter: Rewriter) -> Iterator[tuple[Cone, Norm]]:
    if op.kind not in ("MUL", "ADD", "SUB", "DIV"):
        return
    for cone in cones(op, rewriter, _KINDS, _MOST_OPS):
        if cone.result.shape != cone.source.shape or not cone.source.has_rank:
            continue
        kind = _kind(cone) if cone.labels & _ROOTS and cone.readings > 1 else None
        norm = None if kind is None else _norm(cone, kind)
        if norm is not None:
            yield cone, norm


def _kind(cone: Cone) -> str | None:
    """What a cone may be, by the axes that it reduces."""
    reduced = {constant_axes(op) for op in cone.ops if op.kind in _REDUCTIONS}
    rank = len(cone.source.shape)
    if reduced == {(1, 2)} and rank == 4:
        return "INSTANCE_NORM"
    return "RMS_NORM" if rank and reduced == {(rank - 1,)} else None


def _norm(cone: Cone, kind: str) -> Norm | None:
    """The normalisation that a cone computes, its constants tried as epsilon, gamma and beta."""
    samples = _samples(cone)
    values = None if samples is None else cone.evaluate(samples)
    if values is None or samples is None or values.shape != samples.shape:
        return None
    channels = cone.source.shape[-1]
    floats = [t for t in cone.constants if t.data is not None and t.data.dtype == np.float32]
    lists = [t.data.reshape(-1) for t in floats if t.data is not None and _is_list(t, channels)]
    vectors, one, zero = lists[:_MOST_CONSTANTS], np.ones(1, np.float32), np.zeros(1, np.float32)
    for epsilon in _epsilons(floats):
        attrs = RmsNormAttrs(epsilon) if kind == "RMS_NORM" else InstanceNormAttrs(epsilon)
        unit = _evaluated(Norm(kind, attrs, one, zero), samples)
        for gamma, beta in product([*vectors, one], [*vectors, zero]):
            if _agree(values, unit * gamma + beta):
                norm = Norm(kind, attrs, gamma, beta)
                return norm if _agree(values, _evaluated(norm, samples)) else None
    return None


def _epsilons(floats: list[Tensor]) -> list[float]:
    """What may be added to a variance: small numbers among the constants, or nothing."""
    numbers = {value for t in floats if (value := scalar_of(t)) is not None}
    small = [e for e in sorted(numbers) if 0 < e <= _LARGEST_EPSILON]
    return [*small[:_MOST_CONSTANTS], 0.0]


def _is_list(tensor: Tensor, channels: int | None) -> bool:
    """Whether a constant has one element for each channel, along the last axis."""
    return tensor.elements == channels and tensor.static_shape[-1:] == (channels,)


def _samples(cone: Cone) -> Reals | None:
    """Some rows or small images, each of another magnitude; None where sizes are open or large.

    Means are the same functions of images of any size; sums are not.
    """
    shape = cone.source.shape
    if "SUM" not in cone.labels and len(shape) == 4:
        shape = (shape[0], *_SMALL_IMAGE, shape[-1])
    lead = len(_MAGNITUDES) if len(shape) > 1 else 1
    rest = shape[1:] if len(shape) == 4 else (1,) * max(len(shape) - 2, 0) + shape[-1:]
    known = [size for size in rest if size is not None]
    if len(known) < len(rest) or lead * prod(known) > _MOST_SAMPLES:
        return None
    values = np.random.default_rng(0).normal(0.25, 1, (lead, *known))
    values *= np.array(_MAGNITUDES[-lead:]).reshape(-1, *(1,) * len(known))
    return values.astype(np.float32).reshape((lead, *known) if len(shape) > 1 else known)


def _evaluated(norm: Norm, samples: Reals) -> Reals:
    source = constant("samples", samples)
    op = norm.over(source, source.like(), Origin.of(0, "samples"))
    (values,) = get(op).evaluate(op, [None if t is None else t.data for t in op.inputs])
    return np.asarray(values, np.float32)


def _agree(values: Reals, wanted: Reals) -> bool:
    if wanted.shape != values.shape:
        return False
    off = np.abs(values.astype(np.float64) - wanted).max(initial=0)
    return bool(off <= TOLERANCE * max(1.0, float(np.abs(wanted).max(initial=0))))
