"""Values of two networks, tensor by tensor, on the same inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from circlet.artifact.values import unique_names
from circlet.backends.base import Observation, ObservedValue
from circlet.commands.alignment import aligned, input_for, real
from circlet.commands.inputs import InputOptions, read_inputs, wanted_of
from circlet.commands.match import Matching
from circlet.commands.measures import Measures, mean_of, measures, top_matches
from circlet.errors import InputError
from circlet.formats.about import about
from circlet.formats.arrays import random_array
from circlet.ir import Model, Tensor
from circlet.ir.copy import copy_of
from circlet.options import Options
from circlet.runtime.session import Session

Opened = tuple[Path, Model]
_Pair = tuple[Tensor, Tensor, str, str]
_HELD = 8  # the part of the memory that values of one network may take


@dataclass(frozen=True)
class ValueRequest:
    """How values are compared.

    Attributes:
        data: Files of inputs, one for each input of the first network, or one .npz for all of them;
            random data where there are none.
        seed, runs: The first seed of random data, and how many runs are made.
        tolerance: How far values may be apart, as a share of the largest magnitude of a tensor;
            integers of equal quantisation may not differ at all.
        top: How many of the largest outputs are looked for in both.
    """

    data: tuple[Path, ...] = ()
    seed: int = 0
    runs: int = 1
    tolerance: float = 1e-4
    top: int = 5


@dataclass(frozen=True)
class ValueRow:
    """A tensor of both networks.

    Attributes:
        source, kind: The operator of the first network that makes it.
        first, second: Its name in each network.
        is_output: Whether it is an output of the first network.
        is_different: Whether it differs by more than is allowed.
        measures: How far, None where the two cannot be compared, which `why_not` explains.
        top: For outputs, the share of the largest elements that are among the largest of both.
    """

    source: str
    kind: str
    first: str
    second: str
    is_output: bool
    is_different: bool
    measures: Measures | None
    why_not: str = ""
    top: float | None = None


@dataclass(frozen=True)
class ValueReport:
    """All tensors of both networks that were seen, in the order of the first one's run.

    Attributes:
        inputs: Where the inputs came from.
        first_different: The number of the first row that differs, None where none does.
        unseen: Tensors that one of the networks does not compute in a run, such as constants.
    """

    inputs: str
    runs: int
    tolerance: float
    rows: tuple[ValueRow, ...]
    first_different: int | None
    unseen: int


def compare_values(
    first: Opened, second: Opened, found: Matching, request: ValueRequest, options: Options
) -> ValueReport:
    """Run both networks without optimisation and compare what their operators make.

    Raises:
        InputError: They take inputs that do not go together.
        CircletError: As `Session`, `Session.run` and `read_inputs`.
    """
    _check_shapes([first[1], second[1]], options)
    sides = _Side(first, options), _Side(second, options)
    pairs = list(_pairs(found))
    results: list[dict[int, _Seen]] = []
    for number in range(1 if request.data else request.runs):
        arrays = _inputs(sides[0], request, number, options)
        given = _inputs_of(sides[1].session, sides[0].session, arrays)
        seen_now: dict[int, _Seen] = {}
        for part in _parts(pairs, options.limits.memory_bytes // _HELD):
            kept = sides[0].run(arrays, {pairs[index][0] for index in part})
            other = sides[1].run(given, {pairs[index][1] for index in part})
            for index in part:
                a, b, _, _ = pairs[index]
                if a in kept and b in other:
                    seen_now[index] = _compared(kept[a], other[b], request)
        results.append(seen_now)
    common = set(results[0]).intersection(*results)
    seen = sorted(common, key=lambda index: sides[0].order[pairs[index][0]])
    ends = frozenset(first[1].main.outputs)
    rows = tuple(_row(pairs[i], [run[i] for run in results], ends) for i in seen)
    return ValueReport(
        ", ".join(map(str, request.data)) or f"random data, seed {request.seed}",
        len(results),
        request.tolerance,
        rows,
        next((number for number, row in enumerate(rows) if row.is_different), None),
        len(pairs) - len(rows),
    )


def _check_shapes(models: Sequence[Model], options: Options) -> None:
    known = [tensor.name for model in models for tensor in model.main.inputs]
    unknown = [name for name, _ in options.shapes if name not in known]
    if unknown:
        fix = f"the names are {', '.join(map(repr, dict.fromkeys(known)))}"
        raise InputError("there is no input of that name", where=unknown[0], fix=fix)


def _parts(pairs: Sequence[_Pair], most_bytes: int) -> Iterator[list[int]]:
    """Numbers of pairs whose values are held at once: not all of a large network fit."""
    part, held = list[int](), 0
    for index, (first, second, _, _) in enumerate(pairs):
        size = max(first.size_bytes, second.size_bytes)
        if part and held + size > most_bytes:
            yield part
            part, held = [], 0
        part.append(index)
        held += size
    yield part


@dataclass(frozen=True)
class _Seen:
    """A tensor of both networks in one run."""

    is_different: bool
    measures: Measures | None
    why_not: str
    top: float | None


class _Side:
    """One of the networks, opened at O0 with a name of its own for each tensor."""

    def __init__(self, opened: Opened, options: Options) -> None:
        path, model = opened
        self.model, self.path = model, path
        tensors = _computed(model)
        counts = Counter(tensor.name for tensor in tensors)
        is_clear = "" not in counts and max(counts.values(), default=1) == 1
        own = {tensor.name for tensor in model.main.inputs}
        shapes = tuple(item for item in options.shapes if item[0] in own)
        self._options = options._replace(level="O0", shapes=shapes)
        self._budget = options.limits.memory_budget(model.source_bytes)
        source: Path | Model = path
        self.tensors = {tensor.name: tensor for tensor in tensors}
        if not is_clear:
            source, self.tensors = _renamed(model, tensors)
        self.session = Session.of(source, self._options)
        self.order: dict[Tensor, int] = {}

    def run(
        self, arrays: Sequence[np.ndarray], wanted: Container[Tensor]
    ) -> dict[Tensor, ObservedValue]:
        """The values of tensors that are wanted and that a run computes; states start afresh."""
        self.session.reset()
        budget, kept = self._budget.copy(), dict[Tensor, ObservedValue]()

        def observe(seen: Observation) -> None:
            for value in seen.values:
                tensor = self.tensors.get(value.name)
                if tensor is None:
                    continue
                self.order.setdefault(tensor, len(self.order))
                if tensor in wanted:
                    size = 0 if tensor in kept else value.array.nbytes  # once for all turns
                    budget.charge(size, value.name, "its values, to be compared")
                    copy = np.array(value.array)
                    kept[tensor] = ObservedValue(
                        value.name, copy, value.scale, value.zero_point, value.axis
                    )

        self.session.run(list(arrays), observer=observe)
        return kept


def _computed(model: Model) -> list[Tensor]:
    """Tensors that some op of any graph makes."""
    return list(dict.fromkeys(t for g in model.graphs for op in g.ops for t in op.outputs))


def _renamed(model: Model, tensors: Sequence[Tensor]) -> tuple[Model, dict[str, Tensor]]:
    """A copy of a model whose computed tensors have other names, and what these stand for."""
    own = [tensor.name for tensor in tensors]
    names = unique_names([_Named(name or f"tensor {i}") for i, name in enumerate(own)])
    for tensor, name in zip(tensors, names, strict=True):
        tensor.name = name
    copy = copy_of(model)
    for tensor, name in zip(tensors, own, strict=True):
        tensor.name = name
    return copy, dict(zip(names, tensors, strict=True))


@dataclass(frozen=True)
class _Named:
    name: str


def _pairs(found: Matching) -> Iterator[_Pair]:
    """Tensors of both networks that should hold the same, with the operator of the first one."""
    for one in found.matches:
        first = [tensor for op in one.first for tensor in op.outputs]
        second = [tensor for op in one.second for tensor in op.outputs]
        source, kind = one.first[-1].name, " + ".join(op.label for op in one.first)
        if len(one.first) == len(one.second):
            pairs = list(zip(first, second, strict=False))
        else:
            by_name = {tensor.name: tensor for tensor in second if tensor.name}
            pairs = [(t, by_name[t.name]) for t in first if t.name in by_name]
            pairs = pairs or [(first[-1], second[-1])] if first and second else []
        yield from ((a, b, source, kind) for a, b in pairs)


def _inputs(side: _Side, request: ValueRequest, run: int, options: Options) -> list[np.ndarray]:
    """The inputs of the first network."""
    values = side.session.inputs
    if not request.data:
        return [random_array(wanted_of(value), request.seed + run) for value in values]
    memory = options.limits.memory_bytes
    facts = about(side.model)
    return read_inputs(request.data, values, InputOptions(memory_bytes=memory), facts).arrays


def _inputs_of(wanting: Session, giving: Session, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same inputs for the other network: by name where all names agree, else in order."""
    if len(wanting.inputs) != len(giving.inputs):
        raise InputError(
            "the networks take other inputs, so their values cannot be compared",
            where=", ".join(value.name for value in wanting.inputs),
            why=f"one takes {len(giving.inputs)}, the other {len(wanting.inputs)}",
        )
    in_order = list(zip(giving.inputs, arrays, strict=True))
    named = dict(zip(unique_names(giving.inputs), in_order, strict=True))
    if {value.name for value in wanting.inputs} == set(named):
        in_order = [named[value.name] for value in wanting.inputs]
    pairs = zip(wanting.inputs, in_order, strict=True)
    return [input_for(array, value, wanted) for wanted, (value, array) in pairs]


def _compared(a: ObservedValue, b: ObservedValue, request: ValueRequest) -> _Seen:
    other = aligned(b.array, a.array.shape)
    if other is None:
        why = f"its sizes are {list(a.array.shape)} and {list(b.array.shape)}"
        return _Seen(True, None, why, None)
    if a.array.dtype.hasobject or other.dtype.hasobject:
        is_different = a.array.tolist() != other.tolist()
        return _Seen(is_different, None, "it holds strings", None)
    a, b = _of_one_scale(a, b)
    is_stored = a.array.dtype == other.dtype and a.array.dtype.kind in "iub"
    is_stored = is_stored and (a.scale, a.zero_point) == (b.scale, b.zero_point)
    one = real(a.array, a.scale, a.zero_point, a.axis)
    two = aligned(real(b.array, b.scale, b.zero_point, b.axis), one.shape)
    assert two is not None  # it has the shape that was aligned above
    found = measures(one, two)
    largest = float(np.max(np.abs(one), initial=0, where=np.isfinite(one)))
    allowed = 0.0 if is_stored else request.tolerance * largest
    return _Seen(found.largest > allowed, found, "", top_matches(one, two, request.top))


def _of_one_scale(a: ObservedValue, b: ObservedValue) -> tuple[ObservedValue, ObservedValue]:
    """Both; where only one file states what their integers stand for, the other's are such too.

    An .onnx file says it by the operators around a tensor, not of the tensor itself.
    """
    known = a if a.scale else b
    if a.array.dtype != b.array.dtype or (a.scale and b.scale) or len(known.scale) != 1:
        return a, b
    scale, zero_point = known.scale, known.zero_point
    return (
        replace(a, scale=scale, zero_point=zero_point),
        replace(b, scale=scale, zero_point=zero_point),
    )


def _row(pair: _Pair, runs: Sequence[_Seen], outputs: frozenset[Tensor]) -> ValueRow:
    first, second, source, kind = pair
    known = [run.measures for run in runs if run.measures is not None]
    tops = [run.top for run in runs if run.top is not None]
    is_output = first in outputs
    return ValueRow(
        source,
        kind,
        first.name,
        second.name,
        is_output,
        any(run.is_different for run in runs),
        mean_of(known) if known else None,
        next((run.why_not for run in runs if run.why_not), ""),
        sum(tops) / len(tops) if is_output and tops else None,
    )
