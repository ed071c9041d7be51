"""Loops that compute an LSTM step by step are the operator that they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops.gather import GatherAttrs
from circlet.ops.onnx.record import onnx_op
from circlet.ops.operands import known_ints
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.contract import Contract
from circlet.passes.lstm_cell import Weights, cell_of, onnx_operands, weights_of
from circlet.passes.rewriter import Rewriter

_OPSET = 14


@dataclass(frozen=True)
class _Places:
    """Which of the values that a loop carries is what.

    Attributes:
        turn: The number of the turn.
        data: The sequence, of which a turn takes one element.
        shown, state: The output and the cell state of the step before.
        stack: What the outputs are collected in.
    """

    turn: int
    data: int
    shown: int
    state: int
    stack: int


@dataclass(frozen=True)
class RecogniseLstm:
    """Make an LSTM of a WHILE that runs its cell over a sequence, as ONNX's Scan and Loop do.

    Before: `WHILE(0, h, c, stack, x) {GATHER(x, turn) -> FULLY_CONNECTED -> LOGISTIC, TANH, ... ->
    DYNAMIC_UPDATE_SLICE(stack)}`. After: `LSTM(x, w, r, b, h, c)`, whose products with the inputs
    are one for all steps. The weights are measured: what the gates are for units is compared with
    what they are for random numbers. Loops over sequences of open length stay.
    """

    name = "recognise-lstm"
    needs = frozenset({"WHILE"})
    contract = Contract(
        tolerance=1e-4,
        why="sums are formed in another order",
        native_only="only .onnx files have an LSTM that starts anew in each run",
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
    places = _places(loop)
    if places is None or not _is_whole(loop, places, rewriter):
        return []
    body = loop.regions[1]
    made = body.producers()
    cell = cell_of(made, body.outputs[places.shown], body.outputs[places.state])
    if cell is None or cell.state is not body.inputs[places.state]:
        return []
    data = _element(body, places, made)
    before = body.inputs[places.shown]
    weights = None if data is None else weights_of(cell, made, data, before)
    return [] if weights is None else _operators(loop, places, weights)


def _places(loop: Op) -> _Places | None:
    """What is carried, by what the body makes of it; None for another loop."""
    body, made = loop.regions[1], loop.regions[1].producers()
    turn = _turn(loop)
    if turn is None:
        return None
    stacks = [i for i, t in enumerate(body.outputs) if _kind(t, made) == "DYNAMIC_UPDATE_SLICE"]
    same = [i for i, t in enumerate(body.outputs) if t is body.inputs[i]]
    states = [i for i in range(len(body.outputs)) if i not in (turn, *stacks, *same)]
    sources = [i for i in same if _is_taken_from(body, i, turn)]
    if len(stacks) != 1 or len(states) != 2 or len(sources) != 1:
        return None
    update = made[body.outputs[stacks[0]]]
    shown = [i for i in states if _without_sizes(update.inputs[1], made) is body.outputs[i]]
    if len(shown) != 1 or not _is_update_at_turn(update, body, stacks[0], turn):
        return None
    (state,) = (i for i in states if i != shown[0])
    return _Places(turn, sources[0], shown[0], state, stacks[0])


def _turn(loop: Op) -> int | None:
    """Where the number of the turn is carried, which starts at 0 and counts up to a constant."""
    condition, body = loop.regions
    if [op.kind for op in condition.ops] != ["LESS"] or len(condition.outputs) != 1:
        return None
    (test,) = condition.ops
    first = test.inputs[0]
    if test.outputs[0] is not condition.outputs[0] or first not in condition.inputs:
        return None
    turn = condition.inputs.index(first)
    step = body.producers().get(body.outputs[turn])
    if step is None or step.kind != "ADD" or known_ints(loop.inputs[turn]) != (0,):
        return None
    others = [t for t in step.inputs if t is not body.inputs[turn]]
    return turn if len(others) == 1 and known_ints(others[0]) == (1,) else None


def _count(loop: Op) -> int | None:
    """How many turns a loop takes, where that is known."""
    condition = loop.regions[0]
    last = condition.ops[0].inputs[1]
    if last in condition.inputs:
        place = condition.inputs.index(last)
        if loop.regions[1].outputs[place] is not loop.regions[1].inputs[place]:
            return None
        last = loop.inputs[place]
    found = known_ints(last)
    return found[0] if found is not None and len(found) == 1 else None


def _is_whole(loop: Op, places: _Places, rewriter: Rewriter) -> bool:
    """Whether every element of the sequence has its turn, and only results are read after it."""
    data, stack = loop.inputs[places.data], loop.inputs[places.stack]
    count = _count(loop)
    if data is None or stack is None or count is None or len(data.shape) != 3:
        return False
    if None in data.shape or data.shape[0] != count or stack.shape[:1] != (count,):
        return False
    results = {places.shown, places.state, places.stack}
    rest = [t for place, t in enumerate(loop.outputs) if place not in results]
    floats = all(loop.outputs[place].dtype is DType.FLOAT32 for place in results)
    return count > 0 and floats and not any(rewriter.is_read(t) for t in rest)


def _kind(tensor: Tensor, made: dict[Tensor, Op]) -> str:
    op = made.get(tensor)
    return "" if op is None else op.kind


def _without_sizes(tensor: Tensor | None, made: dict[Tensor, Op]) -> Tensor | None:
    """What reshapes made a tensor of."""
    while tensor is not None and _kind(tensor, made) == "RESHAPE":
        tensor = made[tensor].inputs[0]
    return tensor


def _is_taken_from(body: Graph, place: int, turn: int) -> bool:
    """Whether one GATHER takes the turn's element of a carried value, and nothing else reads it."""
    readers = [op for op in body.ops if body.inputs[place] in op.inputs]
    return len(readers) == 1 and _takes_turn(readers[0], body, turn)


def _takes_turn(op: Op, body: Graph, turn: int) -> bool:
    if op.kind != "GATHER":
        return False
    attrs = op.attributes(GatherAttrs)
    at = _without_sizes(op.inputs[1], body.producers())
    return at is body.inputs[turn] and attrs.axis == 0 and attrs.batch_dims == 0


def _is_update_at_turn(update: Op, body: Graph, stack: int, turn: int) -> bool:
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
    at_turn = _without_sizes(first, made) is body.inputs[turn]
    return at_turn and all(found is not None and not any(found) for found in zeros)


def _element(body: Graph, places: _Places, made: dict[Tensor, Op]) -> Tensor | None:
    """The element of the sequence that a turn works on, [images, elements]."""
    (gather,) = (op for op in body.ops if body.inputs[places.data] in op.inputs)
    found = gather.outputs[0]
    return found if len(found.shape) == 2 else None


def _operators(loop: Op, places: _Places, weights: Weights) -> list[Op]:
    """The LSTM, and the reshapes between its directions, of which there is one, and the loop's."""
    data, shown, state = (loop.inputs[place] for place in (places.data, places.shown, places.state))
    assert data is not None and shown is not None and state is not None
    names = ("w", "r", "b")
    operands = zip(names, onnx_operands([weights]), strict=True)
    constants = [constant(f"{loop.name}/{name}", values) for name, values in operands]
    reshapes, starts = [], []
    for tensor in (shown, state):
        start = _one_more(tensor, 0)
        reshapes.append(_reshape(tensor, start, loop.origin))
        starts.append(start)
    results = [loop.outputs[place] for place in (places.stack, places.shown, places.state)]
    made = [_one_more(tensor, axis) for tensor, axis in zip(results, (1, 0, 0), strict=True)]
    inputs, cells = [data, *constants, None, *starts], weights.recurrent.shape[1]
    layer = onnx_op("LSTM", inputs, made, loop.origin, opset=_OPSET, hidden_size=cells)
    after = [_reshape(*pair, loop.origin) for pair in zip(made, results, strict=True)]
    return [*reshapes, layer, *after]


def _one_more(tensor: Tensor, axis: int) -> Tensor:
    """A tensor like another one with an axis of one element more."""
    shape = tensor.static_shape
    return Tensor(f"{tensor.name}/direction", tensor.dtype, (*shape[:axis], 1, *shape[axis:]))


def _reshape(source: Tensor, result: Tensor, origin: Origin) -> Op:
    sizes = np.array(result.static_shape, np.int32)
    inputs: list[Tensor | None] = [source, constant(f"{result.name}/sizes", sizes)]
    return Op("RESHAPE", inputs, [result], ReshapeAttrs(result.static_shape), origin)
