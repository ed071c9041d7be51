"""Where the operands of the LSTM kinds stand, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Op
from circlet.ops.operands import operand

PROJECTION, PROJECTION_BIAS, OUTPUT_STATE, CELL_STATE = 16, 17, 18, 19
HIDDEN = 4


@dataclass(frozen=True)
class Gate:
    """Operands of one gate, by position; `peephole` is None for the cell gate."""

    name: str
    weights: int
    recurrent: int
    peephole: int | None
    bias: int
    norm: int


@dataclass(frozen=True)
class LstmAttrs:
    """What both kinds say: the activation of cells, and the largest magnitudes kept, 0 for any."""

    activation: str = "NONE"
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    asymmetric_quantize_inputs: bool = False


@dataclass(frozen=True)
class SequenceLstmAttrs(LstmAttrs):
    """Attributes of UNIDIRECTIONAL_SEQUENCE_LSTM."""

    time_major: bool = False
    diagonal_recurrent_tensors: bool = False


@dataclass(frozen=True)
class OneLstmAttrs(LstmAttrs):
    """Attributes of LSTM."""

    kernel_type: str = "FULL"


INPUT = Gate("input", 1, 5, 9, 12, 20)
FORGET = Gate("forget", 2, 6, 10, 13, 21)
CELL = Gate("cell", 3, 7, None, 14, 22)
OUTPUT = Gate("output", 4, 8, 11, 15, 23)
GATES = (INPUT, FORGET, CELL, OUTPUT)


def gates(op: Op) -> tuple[Gate, ...]:
    """The gates that an op has, in the order of the operands; some have no input gate."""
    return GATES[1:] if op.input(INPUT.weights) is None else GATES


def cells(op: Op) -> int:
    """Number of cells."""
    return operand(op, OUTPUT.weights).static_shape[0]


def inputs(op: Op) -> int:
    """Length of an input vector."""
    return operand(op, OUTPUT.weights).static_shape[1]


def outputs(op: Op) -> int:
    """Length of an output vector."""
    return operand(op, OUTPUT.recurrent).static_shape[1]


def is_normalised(op: Op) -> bool:
    """Whether gates are layer-normalised."""
    return op.input(OUTPUT.norm) is not None


def peephole(op: Op, gate: Gate) -> int | None:
    """Position of a gate's weights of the cell state, or None where it does not look at it."""
    found = gate.peephole
    return found if found is not None and op.input(found) is not None else None


def steps_first(op: Op) -> bool:
    """Whether the input's first dimension is time."""
    return isinstance(op.attrs, SequenceLstmAttrs) and op.attrs.time_major
