"""Results beside what is expected, by the tolerances of the Android Neural Networks API's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Description, Operand

_FLOATS = {OperandCode.TENSOR_FLOAT32: "float32", OperandCode.FLOAT32: "float32"}
_FLOATS |= {OperandCode.TENSOR_FLOAT16: "float16", OperandCode.FLOAT16: "float16"}
_SHOWN = 4


def difference(
    operand: Operand, got: np.ndarray, wanted: np.ndarray | None, tolerance: Mapping[str, Any]
) -> str:
    """How a result differs by more than is allowed; "" where it does not.

    Args:
        operand: The output.
        got: The result.
        wanted: The expected elements, flat; None where only type and sizes matter.
        tolerance: As a case states it.
    """
    if got.dtype != operand.code.dtype.numpy:
        return f"{operand.name}: type {got.dtype}, not {operand.code.dtype.numpy}"
    sizes = [(a, b) for a, b in zip(got.shape, operand.dims, strict=False) if b]
    if operand.dims and (got.ndim != len(operand.dims) or any(a != b for a, b in sizes)):
        return f"{operand.name}: sizes {list(got.shape)}, not {list(operand.dims)}"
    if wanted is None:
        return ""
    if got.size != wanted.size:
        return f"{operand.name}: {got.size} elements, not {wanted.size}"
    wrong = ~_close(got.reshape(-1), wanted, _allowed(operand.code, tolerance))
    if not wrong.any():
        return ""
    where = np.flatnonzero(wrong)[:_SHOWN]
    pairs = ", ".join(f"[{i}] {got.reshape(-1)[i]} not {wanted[i]}" for i in where)
    return f"{operand.name}: {np.count_nonzero(wrong)} of {wrong.size} elements differ: {pairs}"


def distribution_fault(
    description: Description, inputs: Sequence[np.ndarray], got: np.ndarray, tolerance: float
) -> str:
    """Whether classes that were drawn from log-probabilities are as frequent as these say.

    The first input holds the log-probabilities of classes, [batches, classes]; `got` the classes
    drawn, [batches, samples].
    """
    logits = inputs[0].astype(np.float64)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = odds / odds.sum(axis=1, keepdims=True)
    classes = expected.shape[1]
    drawn = np.stack([np.bincount(row, minlength=classes)[:classes] for row in got])
    worst = float(np.abs(drawn / got.shape[1] - expected).max())
    if worst <= tolerance:
        return ""
    name = description.operands[description.outputs[0]].name
    return f"{name}: a class is drawn {worst:.3g} more or less often than it should be"


def _allowed(code: OperandCode, tolerance: Mapping[str, Any]) -> tuple[float, float]:
    """Absolute and relative tolerance."""
    if code in _FLOATS:
        allowed = tolerance[_FLOATS[code]]
        return float(allowed["atol"]), float(allowed["rtol"])
    kind = "int32"
    if "QUANT" in code.name:
        kind = "quant16" if "QUANT16" in code.name else "quant8"
    elif "BOOL" in code.name:
        kind = "bool"
    return float(tolerance[kind]), 0.0


def _close(got: np.ndarray, wanted: np.ndarray, allowed: tuple[float, float]) -> np.ndarray:
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    near: np.ndarray = np.isclose(a, b, atol=allowed[0], rtol=allowed[1], equal_nan=True)
    return near
