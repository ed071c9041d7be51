"""Loop and Scan as WHILE: a count of turns, what lives on from turn to turn, stacks of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from circlet.formats.onnx.importers.lists import Lists
from circlet.formats.onnx.importers.stacks import Stack
from circlet.formats.onnx.importers.unrolled import is_true, one_turn, unrolled
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.rank import UnknownRankError
from circlet.formats.onnx.sequences import TensorList
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Graph, Shape, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import ConcatenationAttrs

_MOST_ROWS = 64  # of a batch, each of which is a loop of its own
_MOST_TURNS = np.iinfo(np.int64).max
_CHANGES = "a turn of the loop changes the number of dimensions of a value"


@dataclass
class _Loop:
    """What a loop runs, and on what.

    Attributes:
        count: The most turns, one INT64.
        keep: Whether to take a first turn, one BOOL; None where only the count says when to stop.
        given: The first values of what lives on, sequences included.
        scanned: Tensors of which a turn takes one slice, along which axis, and whether from behind.
        stacked: Axis of each result that has a slice of each turn, and whether from behind.
        has_turn: Whether the body takes the number of the turn, and the condition, and gives one.
        first: How many turns were taken ahead of it.
        earlier: The slices of results that these gave.
    """

    node: Node
    body: Any
    count: Tensor
    keep: Tensor | None
    given: list[Tensor]
    scanned: list[tuple[Tensor, int, bool]] = field(default_factory=list)
    stacked: list[tuple[int, bool]] = field(default_factory=list)
    has_turn: bool = True
    first: int = 0
    earlier: list[Tensor] = field(default_factory=list)

    @property
    def states(self) -> list[Tensor]:
        """What lives on and is no sequence."""
        return [tensor for tensor in self.given if not isinstance(tensor, TensorList)]

    def results(self) -> list[Tensor]:
        """The last values of what lives on, and the stacks."""
        state = self.node.graph.state
        stable, unfolded = partial(self._looped, is_stable=True), partial(unrolled, self)
        attempts: tuple[Callable[[], list[Tensor]], ...] = (self._looped,)
        if state.may_try(len(self.body.node)):
            attempts = (stable, unfolded, self._peeled, self._looped)
        for attempt in attempts:
            kept_ops, kept_graphs = len(self.node.ops), len(state.graphs)
            try:
                return attempt()
            except (NotLoweredError, UnknownRankError) as error:
                if state.unsupported:
                    return []
                why = error
                del self.node.ops[kept_ops:], state.graphs[kept_graphs:]
        raise why

    def _peeled(self) -> list[Tensor]:
        """The results of a loop whose first turn settles sizes and is taken ahead of it."""
        if self.first or any(is_reversed for _, _, is_reversed in self.scanned):
            raise NotLoweredError(_CHANGES)
        goes_on, given, rows = one_turn(self, 0, self.given)
        keep = None if self.keep is None or goes_on is None else _scalar(self.node, goes_on)
        rest = replace(self, keep=keep, given=given, first=1, earlier=rows)
        return rest._looped(is_stable=True)

    def _looped(self, is_stable: bool = False) -> list[Tensor]:
        """The results of an op WHILE, in which sizes that a turn changes are open.

        Raises:
            NotLoweredError: A turn changes a rank, or sizes where these are to be stable.
        """
        shapes, graphs = (
            [state.shape for state in _ranked(self.states)],
            self.node.graph.state.graphs,
        )
        known = len(graphs)
        while True:
            turn = _Turn(self, shapes)
            if self.node.graph.state.unsupported:
                return []
            wider = [_wider(*pair) for pair in zip(shapes, turn.after, strict=True)]
            if wider == shapes:
                return turn.run()
            if is_stable:
                raise NotLoweredError(_CHANGES)
            shapes = wider
            del graphs[known:]


def _wider(before: Shape, after: Tensor) -> Shape:
    if not after.has_rank or len(after.shape) != len(before):
        raise NotLoweredError(_CHANGES)
    pairs = zip(before, after.shape, strict=True)
    return tuple(a if a == b else None for a, b in pairs)


class _Turn:
    """The graph of one turn, for states of some shapes.

    Attributes:
        after: The states behind a turn.
    """

    def __init__(self, loop: _Loop, shapes: Sequence[Shape]) -> None:
        self.loop, node = loop, loop.node
        self.inner = node.graph.inner(loop.body)
        self.maker = Node(self.inner, node.proto, [], {}, node.opset)
        self.maker.origin = node.origin
        self.number = Tensor(f"{node.name}_turn", DType.INT64, ())
        self.count = Tensor(f"{node.name}_count", DType.INT64, ())
        self.flag = Tensor(f"{node.name}_condition", DType.BOOL, ())
        self.states = [state.like() for state in loop.states]
        for state, shape in zip(self.states, shapes, strict=True):
            state.shape, state.default_shape, state.dim_names = shape, None, ()
        self.whole = [tensor.like() for tensor, _, _ in loop.scanned]
        first = [self.number, node.const(True)] if loop.has_turn else []
        self.lists = Lists(loop.given)
        living = self.lists.interleaved(self.states)
        made = self.inner.bound([*first, *living, *self._slices()])
        self.goes_on = made.pop(0) if made and loop.has_turn else None
        count = len(loop.given)
        self.after, self.items = self.lists.taken(made[:count])
        self.rows = made[count:]
        if self.goes_on is not None and is_true(self.goes_on) and is_true(loop.keep):
            self.loop = replace(loop, keep=None)

    def place(self, is_reversed: bool) -> Tensor:
        """The number of the turn, or counted from the last one."""
        if not is_reversed:
            return self.number
        last = self.maker.op("SUB", [self.count, self.maker.const(1, np.int64)])
        return self.maker.op("SUB", [last, self.number])

    def _slices(self) -> list[Tensor]:
        """One slice of each tensor that is scanned; the ops come before those of the body."""
        made = []
        for whole, (_, axis, is_reversed) in zip(self.whole, self.loop.scanned, strict=True):
            at = self.place(is_reversed)
            made.append(self.maker.op("GATHER", [whole, at], GatherAttrs(axis)))
        self.inner.graph.ops += self.maker.ops
        self.maker.ops = []
        return made

    def run(self) -> list[Tensor]:
        """The op WHILE, and what follows it."""
        loop, node = self.loop, self.loop.node
        modes = loop.stacked or [(0, False)] * len(self.rows)
        if len(modes) != len(self.rows) or len(self.after) != len(loop.states):
            raise node.wrong("the body of a loop does not give what the loop does")
        rows, modes = [*self.rows, *self.items], [*modes, *[(0, False)] * len(self.items)]
        earlier = [*loop.earlier, *[None] * len(self.items)] if loop.first else [None] * len(rows)
        stacks = [
            Stack(self, row, *mode, one)
            for row, mode, one in zip(rows, modes, earlier, strict=True)
        ]
        fixed = [(self.count, loop.count)]
        fixed += zip(self.whole, (t for t, _, _ in loop.scanned), strict=True)
        fixed += [(inner, outer) for outer, inner in self.inner.captured.items()]
        changing = [(self.number, node.const(loop.first, np.int64), self._next())]
        if loop.keep is not None:
            changing.append((self.flag, loop.keep, self._condition()))
        changing += zip(self.states, loop.states, self.after, strict=True)
        changing += [(stack.before, stack.start, stack.after) for stack in stacks]
        body = self._graph([row[0] for row in changing] + [row[0] for row in fixed])
        self._give(body, [row[2] for row in changing], [row[0] for row in fixed])
        graphs = [self._test(body), body]
        node.graph.state.graphs += graphs
        given = [row[1] for row in changing] + [row[1] for row in fixed]
        made = node.many("WHILE", given, None, [t.dtype for t in given], regions=graphs)
        turns, skipped = made[0], 1 if loop.keep is None else 2
        ends = made[skipped + len(loop.states) :]
        kept = [stack.result(turns, end) for stack, end in zip(stacks, ends, strict=False)]
        states = made[skipped : skipped + len(loop.states)]
        split = len(self.rows)
        return [*self.lists.results(node, states, kept[split:]), *kept[:split]]

    def _next(self) -> Tensor:
        return self.maker.op("ADD", [self.number, self.maker.const(1, np.int64)])

    def _condition(self) -> Tensor:
        assert self.goes_on is not None
        if self.goes_on.has_rank and self.goes_on.shape == ():
            return self.goes_on
        return self.maker.reshape(self.goes_on, ())

    def _graph(self, inputs: list[Tensor]) -> Graph:
        graph = self.inner.graph
        graph.inputs = inputs
        graph.ops += self.maker.ops
        return graph

    def _give(self, graph: Graph, changed: list[Tensor], fixed: list[Tensor]) -> None:
        """The outputs; what no op gives, or what is given twice, is copied."""
        written = {tensor for op in graph.ops for tensor in op.outputs}
        for tensor in changed:
            if tensor not in written or tensor in graph.outputs:
                tensor = self.inner.copied(tensor, tensor.name)
            graph.outputs.append(tensor)
        graph.outputs += fixed
        graph.tensors = list(graph.used_tensors())

    def _test(self, body: Graph) -> Graph:
        """The graph that says whether to take another turn."""
        tensors = [tensor.like() for tensor in body.inputs]
        maker = Node(self.inner, self.loop.node.proto, [], {}, self.loop.node.opset)
        maker.origin = self.loop.node.origin
        total = tensors[body.inputs.index(self.count)]
        result = maker.op("LESS", [tensors[0], total], dtype=DType.BOOL)
        if self.loop.keep is not None:
            result = maker.op("LOGICAL_AND", [result, tensors[1]])
        graph = Graph(f"{body.name}_condition", tensors, [result], maker.ops)
        graph.tensors = list(graph.used_tensors())
        return graph


def _scalar(node: Node, tensor: Tensor) -> Tensor:
    return tensor if tensor.has_rank and tensor.shape == () else node.reshape(tensor, ())


def _graph_of(node: Node) -> Any:
    if "body" not in node.attributes:
        raise node.wrong(f"{node.kind} lacks its graph body")
    return node.attributes["body"]


def _ranked(tensors: Sequence[Tensor]) -> list[Tensor]:
    if all(tensor.has_rank for tensor in tensors):
        return list(tensors)
    raise NotLoweredError("the number of dimensions of a value of the loop is not known")


@importer("Loop")
def _loop(node: Node) -> list[Tensor]:
    """At most so many turns, while a condition holds; states, then a stack of each other result."""
    most, keep = node.optional(0), node.optional(1)
    count = node.const(_MOST_TURNS, np.int64) if most is None else _scalar(node, most)
    given = [node[index] for index in range(2, len(node.inputs))]
    flag = None if keep is None else _scalar(node, keep)
    return _Loop(node, _graph_of(node), count, flag, given).results()


def _listed(node: Node, name: str, count: int) -> tuple[int, ...]:
    values = node.ints(name) or (0,) * count
    if len(values) != count:
        raise node.wrong(f"{name} has not one element for each tensor", str(values))
    return values


@importer("Scan", since=8)
def _scan_of_batches(node: Node) -> list[Tensor]:
    """A scan of each row of a batch, in the form that operator set 8 has."""
    number, body = node.whole("num_scan_inputs"), _graph_of(node)
    given = _ranked([node[index] for index in range(1, len(node.inputs))])
    split = len(given) - number
    outputs = len(body.output) - split
    if number < 1 or split < 0 or outputs < 0:
        raise node.wrong("Scan has no inputs to go along", f"num_scan_inputs is {number}")
    batch, size = given[split].shape[0], given[split].shape[1]
    if node.optional(0) is not None or batch is None or size is None or not batch <= _MOST_ROWS:
        raise NotLoweredError("rows of a batch have lengths of their own, or sizes are open")
    behind = _listed(node, "directions", number)
    stacked = [(0, False)] * outputs
    rows = []
    for row in range(batch):
        at = node.const(row, np.int32)
        parts = [node.op("GATHER", [tensor, at], GatherAttrs(0)) for tensor in given]
        scanned = [(t, 0, bool(back)) for t, back in zip(parts[split:], behind, strict=True)]
        count = node.const(size, np.int64)
        loop = _Loop(node, body, count, None, parts[:split], scanned, stacked, False)
        rows.append([node.op("EXPAND_DIMS", [t, node.const(0, np.int32)]) for t in loop.results()])
    if batch == 1:
        return rows[0]
    attrs = ConcatenationAttrs(0)
    return [node.op("CONCATENATION", list(parts), attrs) for parts in zip(*rows, strict=True)]


@importer("Scan", since=9)
def _scan(node: Node) -> list[Tensor]:
    """One turn for each slice of the inputs along their axes."""
    number, body = node.whole("num_scan_inputs"), _graph_of(node)
    split = len(node.inputs) - number
    if number < 1 or split < 0:
        raise node.wrong("Scan has no inputs to go along", f"num_scan_inputs is {number}")
    states = _ranked([node[index] for index in range(split)])
    whole = _ranked([node[split + index] for index in range(number)])
    axes = _listed(node, "scan_input_axes", number)
    behind = _listed(node, "scan_input_directions", number)
    scanned = [
        (tensor, node.axis(axis, len(tensor.shape)), bool(is_reversed))
        for tensor, axis, is_reversed in zip(whole, axes, behind, strict=True)
    ]
    outputs = len(body.output) - split
    if outputs < 0:
        raise node.wrong("the body of Scan gives fewer values than it has states")
    made = zip(
        _listed(node, "scan_output_axes", outputs),
        map(bool, _listed(node, "scan_output_directions", outputs)),
        strict=True,
    )
    first, axis, _ = scanned[0]
    size = first.shape[axis]
    count = node.const(size, np.int64) if size is not None else _size(node, first, axis)
    return _Loop(node, body, count, None, states, scanned, list(made), False).results()


def _size(node: Node, tensor: Tensor, axis: int) -> Tensor:
    return node.op("GATHER", [node.sizes(tensor), node.const(axis, np.int32)])
