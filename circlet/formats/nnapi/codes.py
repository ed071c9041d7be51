"""Numbers that the Android Neural Networks API gives to types, lifetimes and rules.

Source: NeuralNetworks.h and NeuralNetworksTypes.h of AOSP.
"""

from __future__ import annotations

from enum import IntEnum

from circlet.ir import DType


class OperandCode(IntEnum):
    """Types of operands; those below TENSOR_FLOAT32, and BOOL and FLOAT16, are scalars."""

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5
    BOOL = 6
    TENSOR_QUANT16_SYMM = 7
    TENSOR_FLOAT16 = 8
    TENSOR_BOOL8 = 9
    FLOAT16 = 10
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11
    TENSOR_QUANT16_ASYMM = 12
    TENSOR_QUANT8_SYMM = 13
    TENSOR_QUANT8_ASYMM_SIGNED = 14

    @property
    def is_scalar(self) -> bool:
        """Whether operands of this type hold one value and have no dimensions."""
        return not self.name.startswith("TENSOR_")

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return _DTYPES[self]


_DTYPES = {
    OperandCode.FLOAT32: DType.FLOAT32,
    OperandCode.INT32: DType.INT32,
    OperandCode.UINT32: DType.UINT32,
    OperandCode.TENSOR_FLOAT32: DType.FLOAT32,
    OperandCode.TENSOR_INT32: DType.INT32,
    OperandCode.TENSOR_QUANT8_ASYMM: DType.UINT8,
    OperandCode.BOOL: DType.BOOL,
    OperandCode.TENSOR_QUANT16_SYMM: DType.INT16,
    OperandCode.TENSOR_FLOAT16: DType.FLOAT16,
    OperandCode.TENSOR_BOOL8: DType.BOOL,
    OperandCode.FLOAT16: DType.FLOAT16,
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: DType.INT8,
    OperandCode.TENSOR_QUANT16_ASYMM: DType.UINT16,
    OperandCode.TENSOR_QUANT8_SYMM: DType.INT8,
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: DType.INT8,
}


class FuseCode(IntEnum):
    """Activations that an operation applies to its result."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class PaddingCode(IntEnum):
    """Implicit paddings."""

    SAME = 1
    VALID = 2
