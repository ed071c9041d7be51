"""Recurrent layers whose steps are spelled out one by one are the operators that they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops.opdef import NoAttrs
from circlet.ops.split import UnpackAttrs
from circlet.passes.cell_weights import CellGraphs, LayerWeights, layer_weights
from circlet.passes.contract import BOUND, Contract
from circlet.passes.recognise_recurrent import NATIVE
from circlet.passes.recurrent_cell import Cell, Producers, cells_of, leading_to
from circlet.passes.recurrent_layer import recurrent_layer
from circlet.passes.rewriter import Rewriter
from circlet.passes.sequence_elements import Element, elements_of


@dataclass(frozen=True)
class _Step:
    """A cell, the element of the sequence that it reads, and the output of the step before."""

    cell: Cell
    data: Tensor
    element: Element
    last: Tensor


@dataclass(frozen=True)
class _Run:
    """Steps of one cell over neighbours in a sequence, in the order in which they run."""

    steps: Sequence[_Step]
    weights: LayerWeights

    @property
    def element(self) -> Element:
        """The first element that is read."""
        return self.steps[0].element

    @property
    def is_backward(self) -> bool:
        """Whether the last element is read first."""
        return self.steps[1].element.place < self.element.place

    @property
    def in_place(self) -> Sequence[_Step]:
        """The steps in the order of the sequence."""
        return self.steps[::-1] if self.is_backward else self.steps


@dataclass(frozen=True)
class RecogniseUnrolled:
    """Make an LSTM, GRU or RNN of steps that are spelled out.

    Before: `UNPACK(x)`, and for each element `FULLY_CONNECTED(x_t), FULLY_CONNECTED(h) -> LOGISTIC,
    TANH, ... -> h`. After: `LSTM(x, w, r, b, h, c)`, whose products with the inputs are one for all
    steps. Weights are measured as those of loops are, and every step must have the same. A first
    step that a converter has simplified, as its states are zeros, stays as it is.
    """

    name = "recognise-unrolled"
    needs = frozenset({"TANH"})
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        native_only=NATIVE,
        grows=dict.fromkeys(BOUND, "a layer counts its functions too, and results are taken apart"),
    )

    def run(self, graph: Graph) -> bool:
        """Replace every run of steps; a layer that reads another one is found once that is."""
        changed = False
        while _recognised(graph):
            changed = True
        return changed


def _recognised(graph: Graph) -> bool:
    elements = elements_of(graph)
    if not elements:
        return False
    rewriter, made = Rewriter(graph), graph.producers()
    for steps in _runs(_steps(graph, made, elements)):
        run = _measured(steps, made)
        if run is not None and _is_closed(run, rewriter):
            _replace(run, made, rewriter)
    return rewriter.finish()


def _steps(graph: Graph, made: Producers, elements: dict[Tensor, Element]) -> dict[Tensor, _Step]:
    """Steps by their outputs."""
    found: dict[Tensor, _Step] = {}
    for op in graph.ops:
        for tensor in op.outputs:
            for cell in cells_of(made, tensor):
                step = _step(cell, made, elements, found)
                if step is not None:
                    found[tensor] = step
    return found


def _step(
    cell: Cell, made: Producers, elements: dict[Tensor, Element], before: dict[Tensor, _Step]
) -> _Step | None:
    """The step that a cell is, if it reads one element and one output [images, cells]."""
    known = before if cell.last is None else (cell.last, cell.reset)
    sums = [*cell.gates, *([] if cell.candidate is None else [cell.candidate])]
    _, leaves = leading_to(made, sums, elements, known)
    leaves = [tensor for tensor in leaves if tensor is not cell.reset]
    data = [tensor for tensor in leaves if tensor in elements]
    rest = [tensor for tensor in leaves if tensor not in elements]
    if len(data) != 1 or len(rest) != 1 or cell.last not in (None, rest[0]):
        return None
    fits = rest[0].shape == cell.shown.shape and None not in cell.shown.shape
    return _Step(cell, data[0], elements[data[0]], rest[0]) if fits else None


def _runs(steps: dict[Tensor, _Step]) -> Iterator[list[_Step]]:
    """Steps one after the other, at least two; longest runs, each step in one."""
    following = {step.last: step for step in steps.values() if _goes_on(steps.get(step.last), step)}
    for first in steps.values():
        if following.get(first.last) is first:
            continue
        run = [first]
        while run[-1].cell.shown in following:
            step = following[run[-1].cell.shown]
            if len(run) > 1 and _stride(run[-1], step) != _stride(run[0], run[1]):
                break
            run.append(step)
        if len(run) > 1:
            yield run


def _goes_on(before: _Step | None, step: _Step) -> bool:
    """Whether a step goes on from the states of another one, and with a neighbour."""
    if before is None or before.cell.kind != step.cell.kind:
        return False
    one, other = before.element, step.element
    same = one.source is other.source and one.is_batch_first == other.is_batch_first
    return same and before.cell.state is step.cell.before and abs(_stride(before, step)) == 1


def _stride(before: _Step, step: _Step) -> int:
    return step.element.place - before.element.place


def _measured(steps: list[_Step], made: Producers) -> _Run | None:
    """The run of as many steps as have the same weights as the first."""
    graphs = [CellGraphs(step.cell, made, step.data, step.last) for step in steps]
    found = graphs[0].weights()
    if found is None:
        return None
    count = next((i for i, each in enumerate(graphs) if not each.agree(found)), len(graphs))
    weights = layer_weights(steps[0].cell, found)
    return None if weights is None or count < 2 else _Run(steps[:count], weights)


def _is_closed(run: _Run, rewriter: Rewriter) -> bool:
    """Whether cell states, but for the last, are read by their own step and the next alone."""
    states = [step.cell.state for step in run.steps[:-1]]
    return all(
        state is None or (len(rewriter.readers(state)) <= 2 and state not in rewriter.boundary)
        for state in states
    )


def _replace(run: _Run, made: Producers, rewriter: Rewriter) -> None:
    """Put the layer where the first step ended, and have it write what is read of all steps."""
    gone = _gone(run, made, rewriter)
    first = made[run.steps[0].cell.shown]
    new = _operators(run, Origin.union(op.origin for op in gone), gone, rewriter)
    for op in gone:
        if op is not first:
            rewriter.remove(op)
    rewriter.replace([first], *new)


def _gone(run: _Run, made: Producers, rewriter: Rewriter) -> dict[Op, None]:
    """The ops of all steps but those that are needed besides; what ends the steps is written."""
    found = dict.fromkeys(op for step in run.steps for op in _inside(step, made))
    written = {step.cell.shown for step in run.steps} | {run.steps[-1].cell.state}
    waiting = [op for op in found if written.isdisjoint(op.outputs)]
    while waiting:
        op = waiting.pop()
        readers = [reader for tensor in op.outputs for reader in rewriter.readers(tensor)]
        is_private = rewriter.boundary.isdisjoint(op.outputs)
        if op in found and not (is_private and found.keys() >= set(readers)):
            del found[op]
            before = [made[t] for t in op.inputs if t in made and t not in written]
            waiting += [each for each in before if each in found]
    return found


def _inside(step: _Step, made: Producers) -> list[Op]:
    """The ops that lead from the output before a step, and what else it is given, to its own."""
    found, waiting = dict[Op, None](), [step.cell.shown]
    given = (step.last, step.data, step.cell.before)
    while waiting:
        tensor = waiting.pop()
        op = None if tensor in given else made.get(tensor)
        if op is not None and op not in found:
            found[op] = None
            waiting += [each for each in op.inputs if each is not None]
    return [*found]


def _operators(run: _Run, origin: Origin, gone: Mapping[Op, None], rewriter: Rewriter) -> list[Op]:
    """The layer; all outputs are taken apart where others than the last are read."""
    first, last = run.steps[0].cell, run.steps[-1].cell
    is_batch_first = run.element.is_batch_first
    data, before = _part(run, first.shown.name, origin)
    sizes = list(first.shown.static_shape)
    sizes.insert(1 if is_batch_first else 0, len(run.steps))
    whole = _resized(first.shown, f"{first.shown.name}/outputs", sizes)
    parts = [step.cell.shown for step in run.in_place]
    after = []
    final = last.shown
    if _are_read(parts, last.shown, gone, rewriter):
        final = last.shown.like(f"{last.shown.name}/last")
        attrs = UnpackAttrs(len(parts), 1 if is_batch_first else 0)
        after = [Op("UNPACK", [whole], parts, attrs, origin)]
    starts, results = [run.steps[0].last], [whole, final]
    if first.before is not None and last.state is not None:
        starts, results = [*starts, first.before], [*results, last.state]
    layer = recurrent_layer(
        first.shown.name,
        origin,
        run.weights,
        data,
        starts,
        results,
        is_batch_first=is_batch_first,
        is_backward=run.is_backward,
    )
    return [*before, *layer, *after]


def _are_read(
    parts: Sequence[Tensor], last: Tensor, gone: Mapping[Op, None], rewriter: Rewriter
) -> bool:
    """Whether outputs of other steps than the last are read by ops that stay."""
    others = [tensor for tensor in parts if tensor is not last]
    return any(
        tensor in rewriter.boundary or not gone.keys() >= set(rewriter.readers(tensor))
        for tensor in others
    )


def _resized(like: Tensor, name: str, sizes: Sequence[int]) -> Tensor:
    return Tensor(name, like.dtype, tuple(sizes))


def _part(run: _Run, name: str, origin: Origin) -> tuple[Tensor, list[Op]]:
    """The elements that a run reads as one tensor, and the op that takes them, if one must."""
    source, is_batch_first, _ = run.element
    axis, count = (1 if is_batch_first else 0), len(run.steps)
    sizes, begin = list(source.static_shape), [0] * len(source.shape)
    if sizes[axis] == count:
        return source, []
    sizes[axis], begin[axis] = count, run.in_place[0].element.place
    part = _resized(source, f"{name}/part", sizes)
    lists = [
        constant(f"{name}/{key}", np.array(values, np.int32))
        for key, values in (("begin", begin), ("sizes", sizes))
    ]
    return part, [Op("SLICE", [source, *lists], [part], NoAttrs(), origin)]
