"""Loops that compute a recurrent layer step by step are the operator that they are."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.operands import known_ints
from circlet.passes.cell_weights import CellGraphs, LayerWeights, layer_weights
from circlet.passes.contract import Contract
from circlet.passes.recurrent_cell import Cell, cells_of
from circlet.passes.recurrent_layer import recurrent_layer, reshaped
from circlet.passes.rewriter import Rewriter

NATIVE = "only .onnx files have a recurrent layer that starts anew in each run"


@dataclass(frozen=True)
class _Places:
    """Which of the values that a loop carries is what.

    Attributes:
        turns: The numbers of the turn, all of them equal.
        data: The sequence, of which a turn takes one element.
        states: The output of the step before, and the cell state of an LSTM.
        stack: What the outputs are collected in, if they are.
        copies: The output again, in other sizes.
    """

    turns: frozenset[int]
    data: int
    states: tuple[int, ...]
    stack: int | None
    copies: tuple[int, ...]


@dataclass(frozen=True)
class RecogniseRecurrent:
    """Make an LSTM, GRU or RNN of a WHILE that runs its cell over a sequence.

    Before: `WHILE(0, h, c, stack, x) {GATHER(x, turn) -> FULLY_CONNECTED -> LOGISTIC, TANH, ... ->
    DYNAMIC_UPDATE_SLICE(stack)}`, as ONNX's Scan and Loop and TensorFlow's loops are read. After:
    `LSTM(x, w, r, b, h, c)`, whose products with the inputs are one for all steps. The weights are
    measured: what the gates are for units is compared with what they are for random numbers. Loops
    over sequences of open length stay.
    """

    name = "recognise-recurrent"
    needs = frozenset({"WHILE"})
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        native_only=NATIVE,
        grows={
            "operators": "a loop is one, however many its graphs hold",
            **dict.fromkeys(("macs", "bytes_moved"), "all steps count, of a loop one of them"),
        },
    )

    def run(self, graph: Graph) -> bool:
        """Replace every loop that is a sequence of steps of one cell."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "WHILE" and len(op.regions) == 2:
                made = _layer(op, rewriter)
                if made:
                    rewriter.replace([op], *made)
        return rewriter.finish()


def _layer(loop: Op, rewriter: Rewriter) -> list[Op]:
    turns = _turns(loop)
    count = _count(loop, turns)
    for places in _places(loop, turns) if count else ():
        if _is_whole(loop, places, count, rewriter):
            weights = _weights(loop.regions[1], places)
            if weights is not None:
                return _operators(loop, places, weights)
    return []


def _weights(body: Graph, places: _Places) -> LayerWeights | None:
    """The weights of the cell that a body computes; None where it computes something else."""
    made = body.producers()
    data = _element(body, places)
    shown, *state = places.states
    if data is None:
        return None
    for cell in cells_of(made, body.outputs[shown]):
        if not _goes_on(body, cell, shown, state):
            continue
        graphs = CellGraphs(cell, made, data, body.inputs[shown])
        found = graphs.weights()
        if found is not None:
            return layer_weights(cell, found)
    return None


def _goes_on(body: Graph, cell: Cell, shown: int, state: list[int]) -> bool:
    """Whether a cell goes on from the states of the turn before."""
    if cell.last not in (None, body.inputs[shown]):
        return False
    if cell.state is None:
        return not state
    return len(state) == 1 and (cell.before, cell.state) == (
        body.inputs[state[0]],
        body.outputs[state[0]],
    )


def _turns(loop: Op) -> frozenset[int]:
    """Where the number of the turn is carried: what starts at 0 and grows by 1."""
    body = loop.regions[1]
    made = body.producers()
    found = set()
    for place, result in enumerate(body.outputs):
        step, carried = made.get(result), body.inputs[place]
        if step is None or step.kind != "ADD" or known_ints(loop.inputs[place]) != (0,):
            continue
        others = [t for t in step.inputs if t is not carried]
        if len(others) == 1 and known_ints(others[0]) == (1,):
            found.add(place)
    return frozenset(found)


def _count(loop: Op, turns: frozenset[int]) -> int:
    """How many turns a loop takes that goes on while numbers of the turn are below bounds.

    0 where that is not known.
    """
    condition = loop.regions[0]
    made = condition.producers()
    waiting, bounds = [*condition.outputs], list[int]()
    while waiting:
        op = made.get(waiting.pop())
        if op is not None and op.kind == "LOGICAL_AND":
            waiting += [tensor for tensor in op.inputs if tensor is not None]
            continue
        if op is None or op.kind != "LESS" or op.inputs[0] not in condition.inputs:
            return 0
        if condition.inputs.index(op.inputs[0]) not in turns:
            return 0
        bound = _carried(loop, op.inputs[1])
        found = known_ints(bound)
        if found is None or len(found) != 1:
            return 0
        bounds.append(found[0])
    return min(bounds, default=0)


def _carried(loop: Op, tensor: Tensor | None) -> Tensor | None:
    """What a tensor of the condition is in every turn; None where turns change it."""
    condition, body = loop.regions
    if tensor not in condition.inputs:
        return tensor
    place = condition.inputs.index(tensor)
    return loop.inputs[place] if body.outputs[place] is body.inputs[place] else None


def _places(loop: Op, turns: frozenset[int]) -> list[_Places]:
    """What is carried, by what the body makes of it; of two states, either may be shown."""
    body, made = loop.regions[1], loop.regions[1].producers()
    places = range(len(body.outputs))
    stacks = [i for i in places if _kind(body.outputs[i], made) == "DYNAMIC_UPDATE_SLICE"]
    same = [i for i in places if body.outputs[i] is body.inputs[i]]
    copies = [i for i in places if _kind(body.outputs[i], made) == "RESHAPE"]
    known = {*turns, *stacks, *same, *copies}
    states = [i for i in places if i not in known]
    sources = [i for i in same if _is_taken_from(body, i, turns)]
    if len(stacks) > 1 or not 1 <= len(states) <= 2 or len(sources) != 1:
        return []
    stack = stacks[0] if stacks else None
    return [
        _Places(turns, sources[0], (shown, *(i for i in states if i != shown)), stack, (*copies,))
        for shown in states
        if _collects(body, shown, stack, turns) and _copies(loop, shown, copies)
    ]


def _collects(body: Graph, shown: int, stack: int | None, turns: frozenset[int]) -> bool:
    """Whether the stack, if there is one, gets the output of every turn."""
    if stack is None:
        return True
    update = body.producers()[body.outputs[stack]]
    item = _without_sizes(update.inputs[1], body.producers())
    return item is body.outputs[shown] and _is_update_at_turn(update, body, stack, turns)


def _copies(loop: Op, shown: int, copies: list[int]) -> bool:
    """Whether nothing but the output is copied, and no turn reads copies."""
    condition, body = loop.regions
    made = body.producers()
    for place in copies:
        if _without_sizes(body.outputs[place], made) is not body.outputs[shown]:
            return False
        inside = (body.inputs[place], condition.inputs[place])
        if any(tensor in op.inputs for op in (*body.ops, *condition.ops) for tensor in inside):
            return False
    return True


def _is_whole(loop: Op, places: _Places, count: int, rewriter: Rewriter) -> bool:
    """Whether every element of the sequence has its turn, and only results are read after it."""
    data = loop.inputs[places.data]
    if data is None or len(data.shape) != 3 or None in data.shape or data.shape[0] != count:
        return False
    results = {*places.states, *places.copies}
    if places.stack is not None:
        results.add(places.stack)
        if loop.outputs[places.stack].shape[:1] != (count,):
            return False
    rest = [t for place, t in enumerate(loop.outputs) if place not in results]
    floats = all(loop.outputs[place].dtype is DType.FLOAT32 for place in results)
    return floats and not any(rewriter.is_read(t) for t in rest)


def _kind(tensor: Tensor, made: dict[Tensor, Op]) -> str:
    op = made.get(tensor)
    return "" if op is None else op.kind


def _without_sizes(tensor: Tensor | None, made: dict[Tensor, Op]) -> Tensor | None:
    """What reshapes made a tensor of."""
    while tensor is not None and _kind(tensor, made) == "RESHAPE":
        tensor = made[tensor].inputs[0]
    return tensor


def _is_taken_from(body: Graph, place: int, turns: frozenset[int]) -> bool:
    """Whether one GATHER takes the turn's element of a carried value, and nothing else reads it."""
    readers = [op for op in body.ops if body.inputs[place] in op.inputs]
    return len(readers) == 1 and _takes_turn(readers[0], body, turns)


def _takes_turn(op: Op, body: Graph, turns: frozenset[int]) -> bool:
    if op.kind != "GATHER":
        return False
    attrs = op.attributes(GatherAttrs)
    is_at_turn = _is_turn(op.inputs[1], body, turns)
    return is_at_turn and attrs.axis == 0 and attrs.batch_dims == 0


def _is_turn(tensor: Tensor | None, body: Graph, turns: frozenset[int]) -> bool:
    """Whether a tensor is the number of the turn, in whatever sizes."""
    number = _without_sizes(tensor, body.producers())
    return any(number is body.inputs[place] for place in turns)


def _is_update_at_turn(update: Op, body: Graph, stack: int, turns: frozenset[int]) -> bool:
    """Whether the body puts its output at the place of the turn, whole, and of nothing else."""
    made = body.producers()
    if update.inputs[0] is not body.inputs[stack]:
        return False
    if sum(body.inputs[stack] in op.inputs for op in body.ops) != 1:
        return False
    begin = None if update.inputs[2] is None else made.get(update.inputs[2])
    if begin is None or begin.kind != "CONCATENATION":
        return False
    first, *rest = begin.inputs
    zeros = [known_ints(tensor) for tensor in rest]
    return _is_turn(first, body, turns) and all(
        found is not None and not any(found) for found in zeros
    )


def _element(body: Graph, places: _Places) -> Tensor | None:
    """The element of the sequence that a turn works on, [images, elements]."""
    (gather,) = (op for op in body.ops if body.inputs[places.data] in op.inputs)
    found = gather.outputs[0]
    return found if len(found.shape) == 2 else None


def _operators(loop: Op, places: _Places, weights: LayerWeights) -> list[Op]:
    """The layer, which writes what is read of the loop."""
    given = [loop.inputs[place] for place in (places.data, *places.states)]
    data, *starts = [tensor for tensor in given if tensor is not None]
    states = [loop.outputs[place] for place in places.states]
    if places.stack is None:
        sizes = (*data.shape[:1], *states[0].shape)
        whole = Tensor(f"{loop.name}/outputs", DType.FLOAT32, sizes)
    else:
        whole = loop.outputs[places.stack]
    made = recurrent_layer(loop.name, loop.origin, weights, data, starts, [whole, *states])
    copies = [reshaped(states[0], loop.outputs[place], loop.origin) for place in places.copies]
    return [*made, *copies]
