"""Normalisations that files spell out are the operators that Circle files have for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from circlet.errors import InputError
from circlet.formats.registry import all_formats, format_named
from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops.circle_norm import InstanceNormAttrs, RmsNormAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.reduce import constant_axes
from circlet.ops.requantize import activation_of
from circlet.passes import onnx_norms
from circlet.passes.cone import ELEMENTWISE, Cone, Reals, apart, cones
from circlet.passes.match import scalar_of
from circlet.passes.rewriter import Rewriter

TOLERANCE = 1e-5
_REDUCTIONS = frozenset({"MEAN", "SUM"})
_KINDS = ELEMENTWISE | _REDUCTIONS
_ROOTS = frozenset({"SQRT", "RSQRT", "POW"})
_LAST = frozenset({"MUL", "ADD", "SUB", "DIV"})
_MOST_OPS, _MOST_SAMPLES, _MOST_CONSTANTS, _LARGEST_EPSILON = 20, 1 << 18, 8, 0.1
_SMALL_IMAGE = (5, 7)
_OF_PIXELS = (1, 2)


class Kinds(NamedTuple):
    """Labels of what a file has for normalisations over images and over rows."""

    of_images: str | None
    of_rows: str | None


_CLAMPING = "INSTANCE_NORM"  # the kind that has an activation
_OF_IMAGES = (_CLAMPING, onnx_norms.INSTANCE_NORM)
_OF_ROWS = ("RMS_NORM", onnx_norms.LAYER_NORM)
_MADE_IN_ONNX = {
    onnx_norms.INSTANCE_NORM: onnx_norms.instance_normalization,
    onnx_norms.LAYER_NORM: onnx_norms.layer_normalization,
}
_MAGNITUDES = (1e-3, 0.03, 30.0, 5.0, 1.0)


@dataclass(frozen=True)
class Norm:
    """A normalisation: its label and attributes, and the constants that scale and move it.

    Attributes:
        gamma: Of channels, or of one element.
        beta: So, too.
    """

    kind: str
    attrs: InstanceNormAttrs | RmsNormAttrs
    gamma: Reals
    beta: Reals

    def clamped(self, activation: str) -> Norm:
        """The same INSTANCE_NORM, its result clamped."""
        assert isinstance(self.attrs, InstanceNormAttrs)
        return replace(self, attrs=replace(self.attrs, activation=activation))

    def ops(self, source: Tensor, result: Tensor, origin: Origin) -> list[Op]:
        """The ops that compute it; an RMS_NORM that moves nothing has no third input."""
        made = _MADE_IN_ONNX.get(self.kind)
        if made is not None:
            return made(source, result, self.gamma, self.beta, self.attrs, origin)
        inputs: list[Tensor | None] = [source, constant(f"{result.name}/gamma", self.gamma)]
        if self.kind == _CLAMPING or self.beta.any():
            inputs.append(constant(f"{result.name}/beta", self.beta))
        return [Op(self.kind, inputs, [result], self.attrs, origin)]


@dataclass(frozen=True)
class RecogniseNorms:
    """Make an INSTANCE_NORM or RMS_NORM of ops that compute the same, where files have these.

    Before: `MUL(x, RSQRT(ADD(MEAN(SQUARE(x)), e)))`, `MUL(gamma)`. After: `RMS_NORM(x, gamma)`. In
    whatever order a file has it: what the ops compute is compared with the normalisation over
    samples of several magnitudes, also ones so small that epsilon counts, where both must agree to
    1e-5 of the largest value. Normalisations over images are over rows and columns of
    [n, h, w, c], and INSTANCE_NORM clamps where the last of the ops does; RMS_NORM is over the last
    axis.

    Attributes:
        format: The kind of file, which says what it has: "onnx" for .onnx files'
            InstanceNormalization and LayerNormalization.
        of_rows: Whether normalisations of rows are looked for besides those of images.
    """

    name = "recognise-norms"
    needs = _REDUCTIONS
    makes = frozenset({*_OF_IMAGES, *_OF_ROWS})
    is_exact = False
    format: str = "circle"
    of_rows: bool = True

    def __post_init__(self) -> None:
        if not any(_kinds_of(self.format)):
            choices = [known.name for known in all_formats() if any(_kinds_of(known.name))]
            raise InputError(
                "no normalisation is recognised for files of this format",
                where=self.format,
                fix=f"choose {' or '.join(choices)}",
            )

    def run(self, graph: Graph) -> bool:
        """Replace the largest groups of ops that are normalisations."""
        rewriter = Rewriter(graph)
        kinds = _kinds_of(self.format)
        kinds = kinds if self.of_rows else kinds._replace(of_rows=None)
        near = _near_reductions(graph, rewriter, kinds)
        recognise = _Norms(kinds).recognise
        for cone, norm in apart(near, lambda op: _candidates(op, rewriter, kinds), recognise):
            origin = cone.ops[-1].origin
            rewriter.replace(cone.ops, *norm.ops(cone.source, cone.result, origin))
        return rewriter.finish()


def _kinds_of(format: str) -> Kinds:
    """The first normalisations that a format has, of images and of rows."""
    known = format_named(format)
    if known is None:
        return Kinds(None, None)
    return Kinds(*(next(filter(known.has, kinds), None) for kinds in (_OF_IMAGES, _OF_ROWS)))


def _near_reductions(graph: Graph, rewriter: Rewriter, kinds: Kinds) -> list[Op]:
    """The products and sums in whose cones a reduction may be."""
    steps: dict[Op, int] = {}
    for op in graph.ops:
        if op.label in _REDUCTIONS:
            if kinds.of_rows is not None or constant_axes(op) == _OF_PIXELS:
                steps[op] = 0
        elif op.label in ELEMENTWISE:
            before = map(rewriter.producer, op.inputs)
            fewest = min((steps[p] for p in before if p in steps), default=_MOST_OPS)
            if fewest + 1 < _MOST_OPS:
                steps[op] = fewest + 1
    return [op for op in steps if op.kind in _LAST]


def _candidates(op: Op, rewriter: Rewriter, kinds: Kinds) -> Iterator[Cone]:
    """The cones that end in an op and have what a normalisation has."""
    for cone in cones(op, rewriter, _KINDS, _MOST_OPS):
        if cone.result.shape != cone.source.shape or not cone.source.has_rank:
            continue
        if cone.labels & _ROOTS and cone.readings > 1 and _kind(cone, kinds) is not None:
            yield cone


@dataclass(frozen=True)
class _Roles:
    """What the constants of a cone are to a normalisation; lists by their numbers."""

    epsilon: float
    gamma: int
    beta: int


class _Norms:
    """Says which cones are normalisations; of those that have one structure, one is searched.

    Structures differ in all constants but lists of several values. What a list is to the first cone
    it is taken to be in the others, where that is proved again.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._roles: dict[Hashable, _Roles | None] = {}
        self._samples: dict[tuple[int, ...], Reals] = {}
        self._units: dict[Hashable, Reals] = {}

    def recognise(self, cone: Cone) -> Norm | None:
        """The normalisation that a cone computes, the clamp of its last op included."""
        if _kind(cone, self._kinds) != _CLAMPING:
            return self._unclamped(cone)
        norm = self._unclamped(_without_clamp(cone))
        return norm and norm.clamped(activation_of(cone.ops[-1]))

    def _unclamped(self, cone: Cone) -> Norm | None:
        """The normalisation that a cone computes, its constants tried as epsilon, gamma, beta."""
        kind, sizes = _kind(cone, self._kinds), _sample_sizes(cone)
        if kind is None or sizes is None:
            return None
        lists = _lists(cone)
        several = [t for t in lists if t.data is not None and np.ptp(t.data) > 0]
        key = (kind, sizes, cone.key(several))
        vectors = [t.data.reshape(-1) for t in lists if t.data is not None][:_MOST_CONSTANTS]
        known = self._roles.get(key)
        if key in self._roles and (known is None or not several):
            return None if known is None else _made(kind, known, vectors)
        if sizes not in self._samples:
            self._samples[sizes] = _samples(sizes)
        samples = self._samples[sizes]
        values = cone.evaluate(samples)
        if values is None or values.shape != samples.shape:
            self._roles[key] = None
            return None
        for roles in self._possible(key, cone, len(vectors)):
            norm = _made(kind, roles, vectors)
            unit = self._unit(kind, roles.epsilon, samples)
            if _agree(values, unit * norm.gamma + norm.beta):
                is_it = _agree(values, _evaluated(norm, samples))
                self._roles[key] = roles if is_it else None
                return norm if is_it else None
        self._roles[key] = None
        return None

    def _possible(self, key: Hashable, cone: Cone, lists: int) -> Iterator[_Roles]:
        """What the constants may be, first what they are in a cone of the same structure."""
        known = self._roles.get(key)
        if known is not None:
            yield known
        numbers = range(lists + 1)
        for epsilon in _epsilons(cone):
            for gamma, beta in product(numbers, numbers):
                yield _Roles(epsilon, gamma, beta)

    def _unit(self, kind: str, epsilon: float, samples: Reals) -> Reals:
        """What a normalisation that neither scales nor moves makes of samples."""
        key = (kind, epsilon, samples.shape)
        if key not in self._units:
            self._units[key] = _evaluated(_made(kind, _Roles(epsilon, 0, 0), []), samples)
        return self._units[key]


def _made(kind: str, roles: _Roles, lists: Sequence[Reals]) -> Norm:
    """The normalisation of some roles; the number after the last list's is no list."""
    epsilon, one, zero = roles.epsilon, np.ones(1, np.float32), np.zeros(1, np.float32)
    attrs = InstanceNormAttrs(epsilon) if kind in _OF_IMAGES else RmsNormAttrs(epsilon)
    return Norm(kind, attrs, [*lists, one][roles.gamma], [*lists, zero][roles.beta])


def _kind(cone: Cone, kinds: Kinds) -> str | None:
    """What a cone may be, by the axes that it reduces."""
    reduced = {constant_axes(op) for op in cone.ops if op.kind in _REDUCTIONS}
    rank = len(cone.source.shape)
    if reduced == {_OF_PIXELS} and rank == 4:
        return kinds.of_images
    return kinds.of_rows if rank and reduced == {(rank - 1,)} else None


def _without_clamp(cone: Cone) -> Cone:
    *ops, last = cone.ops
    if activation_of(last) == "NONE":
        return cone
    attrs = replace(last.attrs, activation="NONE")  # type: ignore[type-var]
    return Cone((*ops, replace(last, attrs=attrs)), cone.source)


def _lists(cone: Cone) -> list[Tensor]:
    """The constants of one float for each channel, along the last axis."""
    channels = cone.source.shape[-1]
    return [t for t in cone.constants if t.dtype is DType.FLOAT32 and _is_list(t, channels)]


def _epsilons(cone: Cone) -> list[float]:
    """What may be added to a variance: small numbers among the constants, or nothing."""
    numbers = {value for t in cone.constants if (value := scalar_of(t)) is not None}
    small = [e for e in sorted(numbers) if 0 < e <= _LARGEST_EPSILON]
    return [*small[:_MOST_CONSTANTS], 0.0]


def _is_list(tensor: Tensor, channels: int | None) -> bool:
    """Whether a constant has one element for each channel, along the last axis."""
    return tensor.elements == channels and tensor.static_shape[-1:] == (channels,)


def _sample_sizes(cone: Cone) -> tuple[int, ...] | None:
    """Sizes of some rows or small images; None where sizes are open or large.

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
    return (lead, *known) if len(shape) > 1 else tuple(known)


def _samples(sizes: tuple[int, ...]) -> Reals:
    """Rows or images, each of another magnitude."""
    lead = sizes[0] if len(sizes) > 1 else 1
    values = np.random.default_rng(0).normal(0.25, 1, (lead, prod(sizes) // max(lead, 1)))
    values *= np.array(_MAGNITUDES[-lead:]).reshape(-1, 1)
    return values.astype(np.float32).reshape(sizes)


def _evaluated(norm: Norm, samples: Reals) -> Reals:
    source = Tensor("samples", DType.FLOAT32, samples.shape)
    result = source.like("normalised")
    ops = norm.ops(source, result, Origin.of(0, "samples"))
    (values,) = evaluate_graph(Graph("norm", [source], [result], ops), [samples])
    return np.asarray(values, np.float32)


def _agree(values: Reals, wanted: Reals) -> bool:
    if wanted.shape != values.shape:
        return False
    off = np.abs(values.astype(np.float64) - wanted).max(initial=0)
    return bool(off <= TOLERANCE * max(1.0, float(np.abs(wanted).max(initial=0))))
