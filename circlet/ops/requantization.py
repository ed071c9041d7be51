"""The requantisation policies of LiteRT's kernels, and those that records evaluate."""

from __future__ import annotations

from circlet.ir import DType, Op, Requantization

DOUBLE = Requantization("double", 32)
SINGLE = Requantization("single", 32)
FLOAT = Requantization("float", 32)
EVEN = Requantization("even", 32)
# LiteRT's int16 kernels sum in 64 bits.
WIDE_SINGLE = Requantization("single", 64)
WIDE_FLOAT = Requantization("float", 64)

_STORED = frozenset({DType.INT8, DType.UINT8, DType.INT16})
_WEIGHTS = frozenset({DType.INT8, DType.INT4})
_SUMS = frozenset({"ADD", "SUB", "MUL", "SQUARED_DIFFERENCE"})
_DATA = {
    "CONV_2D": 0,
    "DEPTHWISE_CONV_2D": 0,
    "TRANSPOSE_CONV": 2,
    "FULLY_CONNECTED": 0,
    "BATCH_MATMUL": 0,
}


def litert_requantization(op: Op) -> Requantization | None:
    """What LiteRT does for an op's kind and types; None where it requantises no sums."""
    if op.kind in _SUMS:
        return DOUBLE if op.outputs[0].dtype in _STORED else None
    data = op.input(_DATA[op.kind]) if op.kind in _DATA else None
    if data is None or data.dtype not in _STORED:
        return None
    if data.dtype is DType.INT16:
        return _of_int16(op)
    return FLOAT if op.kind == "FULLY_CONNECTED" else DOUBLE


def _of_int16(op: Op) -> Requantization:
    """Sums have 64 bits, but those of convolutions with a 32-bit bias."""
    weights, bias = (
        op.input(1),
        op.input(_DATA[op.kind] + (1 if op.kind == "TRANSPOSE_CONV" else 2)),
    )
    if op.kind == "FULLY_CONNECTED" and weights is not None and weights.dtype in _WEIGHTS:
        return WIDE_FLOAT
    narrow = op.kind != "BATCH_MATMUL" and bias is not None and bias.dtype is DType.INT32
    return DOUBLE if narrow else WIDE_SINGLE


def requantization_of(op: Op) -> Requantization:
    """An op's policy; LiteRT's where none is stated, as for ops that passes make."""
    return op.requantization or litert_requantization(op) or DOUBLE


def is_default(op: Op) -> bool:
    """Whether an op requantises as LiteRT does."""
    stated = op.requantization
    return stated is None or stated == litert_requantization(op)


def is_evaluated(op: Op) -> bool:
    """Whether the record of an op's kind evaluates its policy."""
    if is_default(op):
        return True
    data = op.input(_DATA[op.kind]) if op.kind in _DATA else None
    if data is None or data.dtype.bits != 8:
        return False
    if op.kind == "BATCH_MATMUL":
        return op.requantization == EVEN
    return op.requantization in (DOUBLE, SINGLE, FLOAT, EVEN)


def rounds_to_even(op: Op) -> bool:
    """Whether sums are scaled as ONNX Runtime does it."""
    return op.requantization == EVEN


def rounds_twice(op: Op) -> bool:
    """Whether sums of 32 bits are scaled by gemmlowp's fixed-point multiplier."""
    return requantization_of(op) == DOUBLE
