"""LSTM_SEQUENCE and RNN_SEQUENCE in the terms of other kinds, where they have few steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.ir import Op, Tensor
from circlet.ops.decomposition import Parts
from circlet.ops.lstm_float import NORM_EPSILON
from circlet.ops.lstm_operands import (
    CELL,
    CELL_STATE,
    FORGET,
    GATES,
    INPUT,
    OUTPUT,
    OUTPUT_STATE,
    PROJECTION,
    PROJECTION_BIAS,
    Gate,
    gates,
)
from circlet.ops.nnapi.record import attributes
from circlet.ops.operands import operand
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.split import PackAttrs, UnpackAttrs

_MOST_STEPS = 16  # each is some twenty ops
Step = Callable[[Tensor, Tensor | None], Tensor]


def _time_axis(op: Op) -> int:
    return 0 if attributes(op).whole("time_major") else 1


def steps_of(op: Op) -> int | None:
    """Number of steps, where it is known and small; else None."""
    shape = operand(op, 0).shape
    steps = 1 if len(shape) == 2 else shape[_time_axis(op)]
    return steps if steps is not None and 0 < steps <= _MOST_STEPS else None


def _rows(op: Op, parts: Parts, data: Tensor | None, steps: int) -> list[Tensor | None]:
    """[batch, width] of each step, in the order in which steps are run."""
    if data is None or len(data.shape) == 2:
        return [data] * steps
    attrs = UnpackAttrs(steps, _time_axis(op))
    rows = parts.make_many("UNPACK", [data], attrs, [None] * steps)
    return list(rows[::-1] if attributes(op).whole("backward") else rows)


def run_steps(op: Op, parts: Parts, aux: Tensor | None, step: Step) -> Tensor:
    """Run all steps, write the outputs, and give the last one."""
    steps = steps_of(op) or 1
    data, other = (_rows(op, parts, each, steps) for each in (operand(op, 0), aux))
    made = [step(x, y) for x, y in zip(data, other, strict=True) if x is not None]
    if len(operand(op, 0).shape) == 2:
        copied(parts, made[0], op.outputs[0])
        return made[0]
    ordered = made[::-1] if attributes(op).whole("backward") else made
    parts.make("PACK", ordered, PackAttrs(steps, _time_axis(op)), op.outputs[0])
    return made[-1]


def copied(parts: Parts, source: Tensor, result: Tensor) -> None:
    """The elements of rows as another tensor."""
    parts.reshape(source, (-1, source.shape[-1] or 0), result)


def product(parts: Parts, rows: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Rows times transposed weights."""
    return parts.make("FULLY_CONNECTED", [rows, weights, bias])


def summed(parts: Parts, terms: Sequence[Tensor]) -> Tensor:
    """The sum of tensors."""
    total = terms[0]
    for term in terms[1:]:
        total = parts.make("ADD", [total, term])
    return total


def shaped(parts: Parts, value: Tensor, activation: str) -> Tensor:
    """A value through an activation."""
    return value if activation == "NONE" else parts.make(activation, [value])


def _clipped(parts: Parts, value: Tensor, most: np.float32) -> Tensor:
    if not most > 0:
        return value
    below = parts.make("MINIMUM", [value, parts.scalar(float(most))])
    return parts.make("MAXIMUM", [below, parts.scalar(-float(most))])


def _normalised(parts: Parts, rows: Tensor) -> Tensor:
    last, keep = parts.constant(np.array([1], np.int32)), ReducerAttrs(keep_dims=True)
    centred = parts.make("SUB", [rows, parts.make("MEAN", [rows, last], keep)])
    squares = parts.make("MUL", [centred, centred])
    variance = parts.make("MEAN", [squares, last], keep)
    shifted = parts.make("ADD", [variance, parts.scalar(float(NORM_EPSILON))])
    return parts.make("MUL", [centred, parts.make("RSQRT", [shifted])])


def decompose_lstm(op: Op, aux: int) -> list[Op]:
    """The ops of all steps; none where they are many, or sizes not known."""
    widths = (*operand(op, OUTPUT.weights).shape, *operand(op, OUTPUT.recurrent).shape)
    if steps_of(op) is None or None in widths:
        return []
    cell = _LstmCell(op, aux)
    last = run_steps(op, cell.parts, op.input(aux), cell.step)
    copied(cell.parts, last, op.outputs[1])
    copied(cell.parts, cell.state, op.outputs[2])
    return cell.parts.ops


class _LstmCell:
    """An LSTM from step to step.

    Attributes:
        parts: The ops of the steps so far.
        shown, state: The output and the cell state behind these.
    """

    def __init__(self, op: Op, aux: int) -> None:
        self.parts = Parts(op)
        self.shown, self.state = operand(op, OUTPUT_STATE), operand(op, CELL_STATE)
        self._op, self._aux, self._attrs = op, aux, attributes(op)

    def step(self, x: Tensor, extra: Tensor | None) -> Tensor:
        """The output for what a step is given, the second of it optional."""
        op, parts, attrs = self._op, self.parts, self._attrs
        activation = attrs.text("activation")
        kept = parts.make("LOGISTIC", [self._seen(FORGET, x, extra)])
        update = shaped(parts, self._seen(CELL, x, extra), activation)
        if INPUT in gates(op):
            taken = parts.make("LOGISTIC", [self._seen(INPUT, x, extra)])
        else:
            taken = parts.make("SUB", [parts.scalar(1.0), kept])
        both = [parts.make("MUL", [kept, self.state]), parts.make("MUL", [taken, update])]
        self.state = _clipped(parts, parts.make("ADD", both), attrs.real("cell_clip"))
        given = parts.make("LOGISTIC", [self._seen(OUTPUT, x, extra)])
        self.shown = parts.make("MUL", [given, shaped(parts, self.state, activation)])
        if op.input(PROJECTION) is not None:
            made = product(parts, self.shown, operand(op, PROJECTION), op.input(PROJECTION_BIAS))
            self.shown = _clipped(parts, made, attrs.real("proj_clip"))
        return self.shown

    def _seen(self, gate: Gate, x: Tensor, extra: Tensor | None) -> Tensor:
        """What a gate sees, before its activation."""
        op, parts = self._op, self.parts
        norm, bias = op.input(gate.norm), operand(op, gate.bias)
        first = product(parts, x, operand(op, gate.weights), None if norm else bias)
        terms = [first, product(parts, self.shown, operand(op, gate.recurrent))]
        if extra is not None:
            weights = operand(op, self._aux + 1 + GATES.index(gate))
            terms.append(product(parts, extra, weights))
        look = None if gate.peephole is None else op.input(gate.peephole)
        if look is not None:
            terms.append(parts.make("MUL", [self.state, look]))
        total = summed(parts, terms)
        if norm is None:
            return total
        return parts.make("ADD", [parts.make("MUL", [_normalised(parts, total), norm]), bias])
