"""Control flow as steps: branches and loops become jumps between copies and kernel calls.

    WHILE                          IF
      COPY inputs -> outputs         jump to E unless the condition
    T: condition                     then branch, COPY its results -> outputs
      jump to E unless it            jump to D
      body, COPY results -> outputs  E: else branch, COPY its results -> outputs
      jump to T                      D:
    E:

The op's output tensors are the loop's variables, so nothing is copied afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from circlet.backends.cpu.lower.copy import not_copyable, padded_copy
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.backends.cpu.updates import turn_updates
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ir.regions import LOOPS, most_copies, ops_inside, unfolded_ops
from circlet.ops import Effects, NoAttrs, find
from circlet.ops.operands import operand
from circlet.target.targets import Target

COPY = "COPY"
Reasons = dict[tuple[Graph, Target], str | None]  # why a graph cannot be expanded, if it cannot


@dataclass(eq=False)
class Label:
    """A place between two steps."""


@dataclass(frozen=True, eq=False)
class Goto:
    """Go on at a label: always, or unless a flag tensor holds true."""

    label: Label
    op: Op
    unless: Tensor | None = None


Item = Op | Label | Goto


@dataclass
class Flat:
    """Ops, labels and jumps in order.

    Attributes:
        items: What to lower, in order.
        pinned: Tensors that several ops write: outputs of control flow. They keep memory of their
            own.
        owners: The op of the partition that an op inside control flow belongs to.
        updates: Results that may be written over the variables of loops that they update.
    """

    items: list[Item] = field(default_factory=list)
    pinned: set[Tensor] = field(default_factory=set)
    owners: dict[Op, Op] = field(default_factory=dict)
    updates: dict[Tensor, Tensor] = field(default_factory=dict)

    @property
    def ops(self) -> list[Op]:
        """The ops alone."""
        return [item for item in self.items if isinstance(item, Op)]


def flatten(ops: Sequence[Op]) -> Flat:
    """Replace control flow by jumps, however deep it is nested."""
    flat = Flat()
    for op in ops:
        if not is_control(op):
            flat.items.append(op)
            continue
        items = list(_expand(op, flat))
        flat.items += items
        flat.owners |= {item: op for item in items if isinstance(item, Op)}
        flat.owners |= {item.op: op for item in items if isinstance(item, Goto)}
    return flat


class ControlFlow:
    """What control flow of one network may be expanded into jumps.

    A graph stands in the code as often as it is called, so all expansions together are bounded.
    """

    def __init__(self) -> None:
        self._counts: dict[Graph, int] = {}
        self._own_ops = self._copies = 0
        self._expanded: set[Op] = set()
        self._reasons: Reasons = {}

    def refusal(self, op: Op, target: Target) -> str | None:
        """Why an op cannot run natively: too many copies, or as `refusal` says."""
        if op not in self._expanded:
            copies = self._copies + self._inside(op)
            if copies > most_copies(self._own_ops):
                return f"graphs come to {copies} operators where each call is a copy"
            self._copies = copies
            self._expanded.add(op)
        return refusal(op, target, self._reasons)

    def _inside(self, op: Op) -> int:
        for region in op.regions:
            if region not in self._counts:
                found = unfolded_ops(region)
                self._own_ops += sum(len(graph.ops) for graph in found.keys() - self._counts.keys())
                self._counts |= found
        return ops_inside(op, self._counts)


def refusal(op: Op, target: Target, known: Reasons) -> str | None:
    """Why control flow cannot run natively: an op inside that cannot, or a changing shape.

    `known` has the reasons of the ops inside graphs that were looked at.
    """
    for region in op.regions:
        if (region, target) not in known:
            known[region, target] = _reason_inside(region, target, known)
        if (reason := known[region, target]) is not None:
            return reason
    if op.kind in LOOPS and (reason := _start_refusal(op, target)) is not None:
        return reason
    results = op.regions[-1:] if op.kind in LOOPS else op.regions
    for region in results:
        for made, wanted in zip(region.outputs, op.outputs, strict=True):
            if None in made.shape or made.shape != wanted.shape:
                return f"the shape of {wanted.name} changes"
            if not made.is_constant and (reason := not_copyable(made)):
                return reason
    return None


def _start_refusal(op: Op, target: Target) -> str | None:
    """Why a variable cannot start as what has fewer places than it."""
    pairs = zip(op.inputs, op.outputs, strict=True)
    starts = [_start(op, s, v) for s, v in pairs if s is not None and s.shape != v.shape]
    reasons = (
        _row_refusal(start, target) for start in starts if None not in start.outputs[0].shape
    )
    return next((reason for reason in reasons if reason is not None), None)


def _reason_inside(region: Graph, target: Target, known: Reasons) -> str | None:
    for inner in region.ops:
        is_nested = is_control(inner)
        reason = refusal(inner, target, known) if is_nested else _row_refusal(inner, target)
        if reason is not None:
            return f"{inner.label} {inner.name} inside: {reason}"
    return None


def is_control(op: Op) -> bool:
    """Whether an op is expanded into jumps."""
    record = find(op.label)
    return record is not None and record.effects is Effects.RUNS_GRAPHS


def _row_refusal(op: Op, target: Target) -> str | None:
    row = LOWERINGS.choose(op, target)
    return row if isinstance(row, str) else None


def _expand(op: Op, flat: Flat) -> Iterator[Item]:
    if op.kind in LOOPS:
        yield from _expand_while(op, flat)
    elif op.kind == "IF":
        yield from _expand_if(op, flat)
    elif op.kind == "STABLEHLO_CASE":
        yield from _expand_case(op, flat)
    else:
        yield op


def _expand_while(op: Op, flat: Flat) -> Iterator[Item]:
    variables = op.outputs
    flat.pinned.update(variables)
    turn, end = Label(), Label()
    yield from _starts(op)
    yield turn
    condition = _Inlined(op.regions[0], variables)
    yield from condition.items(flat)
    yield Goto(end, op, condition.outputs[0])
    body = _Inlined(op.regions[1], variables)
    flat.updates |= {body.seen(made): body.seen(t) for made, t in turn_updates(op).items()}
    yield from body.items(flat)
    yield from _parallel_copies(op, body.outputs, variables)
    yield Goto(turn, op)
    yield end


def _expand_if(op: Op, flat: Flat) -> Iterator[Item]:
    flat.pinned.update(op.outputs)
    otherwise, done = Label(), Label()
    yield Goto(otherwise, op, op.inputs[0])
    for region, label in zip(op.regions, (otherwise, done), strict=True):
        branch = _Inlined(region, [operand(op, i) for i in range(1, len(op.inputs))])
        yield from branch.items(flat)
        yield from _copies(op, branch.outputs, op.outputs)
        if label is otherwise:
            yield Goto(done, op)
        yield label


def _expand_case(op: Op, flat: Flat) -> Iterator[Item]:
    """Branch by branch: each but the last, which runs for all other numbers, is asked for."""
    flat.pinned.update(op.outputs)
    index, done = operand(op, 0), Label()
    for number, region in enumerate(op.regions):
        after, is_last = Label(), number == len(op.regions) - 1
        if not is_last:
            flag = Tensor(f"{op.name} is {number}", DType.BOOL, index.shape)
            wanted = constant("number", np.full(index.static_shape, number, np.int32))
            yield Op("EQUAL", [index, wanted], [flag], NoAttrs(), op.origin)
            yield Goto(after, op, flag)
        branch = _Inlined(region, [operand(op, i) for i in range(1, len(op.inputs))])
        yield from branch.items(flat)
        yield from _copies(op, branch.outputs, op.outputs)
        if not is_last:
            yield Goto(done, op)
            yield after
    yield done


class _Inlined:
    """A copy of a region's ops in which its inputs are other tensors."""

    def __init__(self, region: Graph, inputs: Sequence[Tensor]) -> None:
        self._new: dict[Tensor, Tensor] = dict(zip(region.inputs, inputs, strict=True))
        self._ops = [self._copy(op) for op in region.ops]
        self.outputs = [self.seen(tensor) for tensor in region.outputs]

    def items(self, flat: Flat) -> Iterator[Item]:
        """The copied ops, control flow among them expanded."""
        for op in self._ops:
            yield from _expand(op, flat)

    def _copy(self, op: Op) -> Op:
        for tensor in op.outputs:
            self._new[tensor] = replace(tensor, extra=dict(tensor.extra))
        inputs = [None if t is None else self.seen(t) for t in op.inputs]
        return replace(op, inputs=inputs, outputs=[self.seen(t) for t in op.outputs])

    def seen(self, tensor: Tensor) -> Tensor:
        """What stands for a tensor of the region."""
        return self._new.get(tensor, tensor)


def _starts(op: Op) -> Iterator[Op]:
    """What a loop's variables are before the first turn, as far as they are filled then."""
    for source, variable in zip(op.inputs, op.outputs, strict=True):
        if source is None or source.shape == variable.shape:
            yield from _copies(op, [source], [variable])
        else:
            yield _start(op, source, variable)


def _start(op: Op, source: Tensor, variable: Tensor) -> Op:
    """Put a tensor into a variable that has more room; an element, where there is none in it."""
    origin = constant("start", np.zeros(len(variable.shape), np.int32))
    if 0 in source.shape:
        source = constant("zero", np.zeros((1,) * len(variable.shape), variable.dtype.numpy))
        source.quant = variable.quant
    kind = "DYNAMIC_UPDATE_SLICE"
    return Op(kind, [variable, source, origin], [variable], NoAttrs(), op.origin)


def _copies(op: Op, sources: Sequence[Tensor | None], targets: Sequence[Tensor]) -> Iterator[Op]:
    for source, target in zip(sources, targets, strict=True):
        if source is not None and source is not target:
            yield Op(COPY, [source], [target], NoAttrs(), op.origin)


def _parallel_copies(op: Op, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> Iterator[Op]:
    """Copies as if all at once: a variable that another one takes over is saved first."""
    variables = set(targets)
    saved: dict[Tensor, Tensor] = {}
    for source, target in zip(sources, targets, strict=True):
        if source in variables and source is not target and source not in saved:
            saved[source] = source.like(f"{source.name} before")
            yield Op(COPY, [source], [saved[source]], NoAttrs(), op.origin)
    moved = [
        saved.get(source, source) if source is not target else source
        for source, target in zip(sources, targets, strict=True)
    ]
    yield from _copies(op, moved, targets)


def _lower_copy(op: Op, context: Context) -> None:
    padded_copy(op, operand(op, 0), op.outputs[0], context)


LOWERINGS.add(
    Lowering(
        COPY,
        "copy",
        refuses=lambda op, target: not_copyable(operand(op, 0)),
        lower=_lower_copy,
        strided_inputs=True,
        strided_output=True,
    )
)
