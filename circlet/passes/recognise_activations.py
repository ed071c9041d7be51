"""Activation functions that files spell out are the operators that they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs, get
from circlet.ops.activation import LeakyReluAttrs
from circlet.ops.smooth import GeluAttrs
from circlet.passes.cone import ELEMENTWISE, Cone, Reals, apart, cones
from circlet.passes.rewriter import Rewriter

TOLERANCE = 2e-6
_BENT = frozenset(
    {
        *("MINIMUM", "MAXIMUM", "ABS", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"),
        *("TANH", "LOGISTIC", "EXP", "CUSTOM:onnx.Erf"),
    }
)
_MOST_OPS, _MOST_CHANNELS = 12, 4096


@dataclass(frozen=True)
class Function:
    """An activation: its kind and attributes, and slopes of channels where it has some."""

    kind: str
    attrs: object
    slopes: Reals | None = None

    def over(self, source: Tensor, result: Tensor, origin: Origin) -> Op:
        """The op that computes it."""
        inputs: list[Tensor | None] = [source]
        if self.slopes is not None:
            sizes = (1,) * max(len(source.shape) - 2, 0) + self.slopes.shape
            inputs.append(constant(f"{result.name}/alpha", self.slopes.reshape(sizes)))
        return Op(self.kind, inputs, [result], self.attrs, origin)


@dataclass(frozen=True)
class RecogniseActivations:
    """Make a GELU, HARD_SWISH, LEAKY_RELU, PRELU, ELU or LOGISTIC of ops that compute the same.

    Before: `MUL(x, MUL(ADD(Erf(DIV(x, 1.414)), 1), 0.5))`. After: `GELU(x)`. In whatever order a
    file has its products and constants: what the ops compute is compared with the function, over
    floats of all magnitudes from 2**-24 to 2**16 and around each constant, where both must agree
    to 2e-6 of the larger of 1 and the value.
    """

    name = "recognise-activations"
    needs = _BENT - {"CUSTOM:onnx.Erf"} | {"CUSTOM"}
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Replace the largest groups of ops that are such functions."""
        rewriter = Rewriter(graph)
        known: dict[Hashable, Function | None] = {}

        def recognise(cone: Cone) -> Function | None:
            channels = _channels(cone) or 1
            key = (channels, cone.key())
            if key not in known:
                known[key] = _function(cone, channels)
            return known[key]

        for cone, function in apart(graph.ops, lambda op: _candidates_at(op, rewriter), recognise):
            fresh = function.over(cone.source, cone.result, cone.ops[-1].origin)
            rewriter.replace(cone.ops, fresh)
        return rewriter.finish()


def _candidates_at(op: Op, rewriter: Rewriter) -> Iterator[Cone]:
    """The cones that end in an op and may be a function of one element each."""
    for cone in cones(op, rewriter, ELEMENTWISE, _MOST_OPS):
        labels = cone.labels
        if len(cone.ops) < 2 or not labels & _BENT or (cone.readings < 2 and "EXP" not in labels):
            continue
        if _channels(cone) is None:
            return
        yield cone


def _channels(cone: Cone) -> int | None:
    """How many channels have constants of their own; 1 without such, None for other constants."""
    last = cone.source.shape[-1] if cone.source.shape else None
    if cone.result.shape != cone.source.shape or not cone.source.has_rank:
        return None
    channels = 1
    for tensor in cone.constants:
        size = tensor.elements
        if size == 1:
            continue
        if size != last or tensor.static_shape[-1] != size or size > _MOST_CHANNELS:
            return None
        channels = size
    return channels


def _function(cone: Cone, channels: int) -> Function | None:
    """The activation that a cone computes, if it is one."""
    few = cone.evaluate(_samples([], -2, 3, channels))
    samples = _samples(_constants(cone), -24, 17, channels)
    slopes = cone.evaluate(np.full((1, channels), -1, np.float32))
    if few is None or slopes is None or few.size % channels:
        return None
    slopes = -slopes.reshape(-1)
    likely = [f for f in _candidates(slopes) if _agree(few, f, _samples([], -2, 3, channels))]
    if not likely:
        return None
    values = cone.evaluate(samples)
    return next((f for f in likely if values is not None and _agree(values, f, samples)), None)


def _candidates(slopes: Reals) -> Iterator[Function]:
    if slopes.size > 1:
        yield Function("PRELU", NoAttrs(), slopes)
        return
    yield from (Function("GELU", GeluAttrs(approximate)) for approximate in (False, True))
    yield from (Function(kind, NoAttrs()) for kind in ("HARD_SWISH", "ELU", "LOGISTIC"))
    yield Function("LEAKY_RELU", LeakyReluAttrs(float(slopes[0])))


def _constants(cone: Cone) -> list[float]:
    """Numbers at which a function that has these constants may bend."""
    values = [float(t.data.reshape(-1)[0]) for t in cone.constants if t.data is not None]
    return [v for v in values if np.isfinite(v) and v] + [1 / v for v in values if abs(v) > 1e-9]


def _samples(around: list[float], low: int, high: int, channels: int) -> Reals:
    """Numbers of all magnitudes from 2**low to 2**high, for each channel."""
    steps = 64 if channels == 1 else 2
    powers = np.exp2(np.arange(low * steps, high * steps + 1) / steps)
    near = np.outer(around, 1 + np.linspace(-1 / 16, 1 / 16, 33)).reshape(-1)
    positive = np.concatenate([powers, np.abs(near)])
    values = np.concatenate([[0.0], positive, -positive]).astype(np.float32)
    return np.repeat(values[:, None], channels, 1)


def _agree(values: Reals, function: Function, samples: Reals) -> bool:
    wanted = _evaluated(function, samples)
    if values.size != wanted.size:
        return False
    off = np.abs(values.reshape(wanted.shape).astype(np.float64) - wanted)
    return bool(np.all(off <= TOLERANCE * np.maximum(1, np.abs(wanted))))


def _evaluated(function: Function, samples: Reals) -> Reals:
    source = constant("samples", samples)
    op = function.over(source, source.like(), Origin.of(0, "samples"))
    (values,) = get(op).evaluate(op, [t.data for t in op.inputs if t is not None])
    return np.asarray(values, np.float32)
