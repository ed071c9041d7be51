"""Small networks that are put together call by call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.formats.nnapi.codes import OperandCode
from circlet.frontends.nnapi import Compilation, Device, Execution, Model, OperandType

FLOATS = OperandCode.TENSOR_FLOAT32
REFERENCE = (Device("reference"),)
X = np.array([[1, -2, 3, -4]], np.float32)
Y = np.array([[10, 20, 30, 40]], np.float32)
SUM = np.array([[11, 18, 33, 36]], np.float32)


def added(output: Sequence[int] = (1, 4), given: Sequence[int] = (1, 4)) -> Model:
    """The sum of two inputs, not yet finished."""
    model = Model()
    a, b = (model.add_operand(OperandType(FLOATS, tuple(given))) for _ in range(2))
    activation = model.add_operand(OperandType(OperandCode.INT32))
    total = model.add_operand(OperandType(FLOATS, tuple(output)))
    model.set_operand_value(activation, np.int32(0))
    model.add_operation("ADD", [a, b, activation], [total])
    model.identify_inputs_and_outputs([a, b], [total])
    return model


def finished(model: Model | None = None) -> Model:
    """A finished model."""
    made = model or added()
    made.finish()
    return made


def compiled(
    model: Model | None = None, devices: Sequence[Device] | None = REFERENCE
) -> Compilation:
    """A finished compilation."""
    made = Compilation(finished(model), devices)
    made.finish()
    return made


def given(compilation: Compilation, out: np.ndarray | None = None) -> Execution:
    """An execution whose inputs and output are given."""
    execution = Execution(compilation)
    execution.set_input(0, X)
    execution.set_input(1, Y)
    execution.set_output(0, np.zeros((1, 4), np.float32) if out is None else out)
    return execution
