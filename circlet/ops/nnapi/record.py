"""Records of operations of the Android Neural Networks API that no Circle operator means exactly.

Each is a custom operator `nnapi.<kind>`. Its inputs are the operation's tensors, its attributes the
operation's scalars by the names that NeuralNetworks.h gives them in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.errors import InputError
from circlet.ir import DType, Op
from circlet.ops.opdef import Arrays, Cost, Effects, OpDef, Rule, TensorType, register
from circlet.ops.operands import infer_ranked, is_affine, operand, present, scale_of, zero_of
from circlet.ops.requantize import limits

PREFIX = "nnapi."
Scalar = bool | int | float | str
Floats = npt.NDArray[np.float32]
QUANTISED = (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16)


@dataclass(frozen=True)
class NnapiAttrs:
    """Scalars of an operation by their names, sorted."""

    values: tuple[tuple[str, Scalar], ...] = ()

    def whole(self, name: str) -> int:
        """An integer, or a truth value as 0 or 1."""
        return int(self._get(name))

    def real(self, name: str) -> np.float32:
        """A number of type FLOAT32."""
        return np.float32(self._get(name))

    def text(self, name: str) -> str:
        """A word."""
        return str(self._get(name))

    def _get(self, name: str) -> Scalar:
        return next((value for key, value in self.values if key == name), 0)


def scalars(**values: Scalar) -> NnapiAttrs:
    """Attributes of these values."""
    return NnapiAttrs(tuple(sorted(values.items())))


def attributes(op: Op) -> NnapiAttrs:
    """The attributes of an op of the domain `nnapi`."""
    return op.attributes(NnapiAttrs)


def real(op: Op, index: int, arrays: Arrays) -> Floats:
    """The numbers that input `index` stands for."""
    array, tensor = present(arrays[index]), operand(op, index)
    if tensor.dtype not in QUANTISED:
        return array.astype(np.float32, copy=False)
    return (array.astype(np.float32) - np.float32(zero_of(tensor))) * np.float32(scale_of(tensor))


def stored(op: Op, index: int, numbers: Floats) -> np.ndarray:
    """Numbers as output `index` stores them: rounded half away from zero, and saturated."""
    tensor = op.outputs[index]
    if tensor.dtype not in QUANTISED:
        return numbers.astype(tensor.dtype.numpy, copy=False)
    scaled = numbers / np.float32(scale_of(tensor)) + np.float32(zero_of(tensor))
    return np.clip(half_away(scaled), *limits(tensor.dtype)).astype(tensor.dtype.numpy)


def half_away(numbers: npt.ArrayLike) -> Floats:
    """The nearest integers, of two equally near ones that away from zero."""
    given = np.asarray(numbers, np.float32)
    whole = np.trunc(given)
    away = np.where(np.abs(given - whole) >= np.float32(0.5), np.sign(given), np.float32(0))
    return whole + away.astype(np.float32)


def refuse(op: Op, holds: bool | np.bool_, why: str) -> None:
    """InputError where what an operand holds in a run breaks a condition."""
    if not holds:
        raise InputError(
            "an operand holds what the operation does not allow",
            where=f"{op.name} ({op.label})",
            why=why,
        )


def channels_last(op: Op, array: np.ndarray) -> np.ndarray:
    """An image as [batch, height, width, channels], whatever its layout."""
    return array.transpose(0, 2, 3, 1) if attributes(op).whole("nchw") else array


def quantised(*inputs: int, outputs: tuple[int, ...] = ()) -> Rule:
    """Quantised operands need one scale and zero point."""

    def holds(op: Op) -> bool:
        tensors = [operand(op, index) for index in inputs] + [op.outputs[i] for i in outputs]
        return all(t.dtype not in QUANTISED or is_affine(t) for t in tensors)

    return Rule("quantised", holds, "quantised operands need one scale and zero point")


def nnapi_kind(
    kind: str,
    evaluate: Callable[[Op, Arrays], list[np.ndarray]],
    infer: Callable[[Op], list[TensorType]],
    cost: Callable[[Op], Cost],
    *,
    inputs: tuple[int, int],
    dtypes: tuple[str, ...],
    required: int | None = None,
    outputs: int | None = 1,
    rules: tuple[Rule, ...] = (),
    numerics: str = "tolerance",
    effects: Effects = Effects.NONE,
    decompose: Callable[[Op], list[Op]] | None = None,
) -> OpDef:
    """Register a kind of the domain."""
    return register(
        OpDef(
            kind=f"CUSTOM:{PREFIX}{kind}",
            attrs=NnapiAttrs,
            arity=inputs,
            required=inputs[0] if required is None else required,
            outputs=outputs,
            dtypes=dtypes,
            infer=infer_ranked(infer),
            evaluate=evaluate,
            rules=rules,
            numerics=numerics,
            effects=effects,
            decompose=decompose,
            cost=cost,
        )
    )
