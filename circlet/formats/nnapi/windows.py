"""Layouts, paddings and strides of operations over images, as scalar operands give them."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.codes import OperandCode, PaddingCode
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.geometry import SAME_UPPER, UNPADDED, Padding

CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)


def transposed(call: Call, source: Tensor, order: tuple[int, ...]) -> Tensor:
    """The axes of a tensor in another order."""
    if order == tuple(range(len(order))):
        return source
    return call.op("TRANSPOSE", [source, call.const(order, "i4")], quant=source.quant)


def image(call: Call, source: Tensor, is_nchw: bool) -> Tensor:
    """An image as records have it, [batch, height, width, channels]."""
    return transposed(call, source, CHANNELS_LAST) if is_nchw else source


def image_result(
    call: Call,
    kind: str,
    inputs: list[Tensor | None],
    attrs: object,
    *,
    is_nchw: bool = False,
) -> None:
    """Make an op over images that writes the output in the layout that the operation has."""
    if not is_nchw:
        call.result(kind, inputs, attrs)
        return
    result = call.output()
    made = call.op(kind, inputs, attrs, result.dtype, result.quant)
    call.result("TRANSPOSE", [made, call.const(CHANNELS_FIRST, "i4")])


def record_types(call: Call, data: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, DType | None]:
    """Activations and weights in types that records have together.

    Weights of INT8 meet activations of INT8, unless they have a zero point: then both are UINT8.
    The third is the type of the result, None where it is the one that is declared.
    """
    if weights.dtype is not DType.INT8:
        return data, weights, None
    if weights.quant is not None and weights.quant.zero_point.any():
        whole = DType.UINT8
        return stored_as(call, data, whole), stored_as(call, weights, whole), whole
    if data.dtype is DType.UINT8:
        return stored_as(call, data, DType.INT8), weights, DType.INT8
    return data, weights, None


def stored_as(call: Call, source: Tensor, dtype: DType) -> Tensor:
    """8-bit values in the other type of 8 bits; they mean the same."""
    if source.dtype is dtype:
        return source
    return call.op("QUANTIZE", [source], dtype=dtype, quant=quant_as(call, source, dtype))


def quant_as(call: Call, tensor: Tensor, dtype: DType) -> Quantization:
    """The quantisation that values of an 8-bit tensor have in UINT8 or in INT8."""
    quant = tensor.quant
    if quant is None:
        raise call.wrong("a quantised operand has no scale", tensor.name)
    if tensor.dtype is dtype:
        return quant
    shift = -128 if dtype is DType.INT8 else 128
    return Quantization.per_tensor(float(quant.scale[0]), int(quant.zero_point[0]) + shift)


@dataclass(frozen=True)
class Steps:
    """What the scalars of an operation with windows say.

    Attributes:
        padding: Around the image, rows first.
        strides: Of rows and columns.
        end: The position of the operand after the strides.
    """

    padding: Padding
    strides: tuple[int, int]
    end: int

    @property
    def amounts(self) -> tuple[tuple[int, int], ...]:
        """The padding as amounts, which it must be."""
        assert isinstance(self.padding, tuple)
        return self.padding


def has_explicit_padding(call: Call, first: int, scalars: int) -> bool:
    """Whether four amounts stand at `first`, where a scheme would be followed by `scalars` numbers.

    A scheme and those are followed by the end of the list or by a BOOL.
    """
    behind = first + 1 + scalars
    if len(call) <= behind:
        return False
    return call.code(behind) is not OperandCode.BOOL


def steps(call: Call, first: int, *, explicit: bool) -> Steps:
    """Padding and strides from operand `first` on; widths come before heights."""
    if not explicit:
        across, down = call.whole(first + 1), call.whole(first + 2)
        return Steps(_implicit(call, first), (down, across), first + 3)
    left, right, top, bottom, across, down = (call.whole(first + i) for i in range(6))
    return Steps(((top, bottom), (left, right)), (down, across), first + 6)


def _implicit(call: Call, index: int) -> Padding:
    code = call.whole(index)
    if code not in list(PaddingCode):
        raise call.wrong("a padding scheme is unknown", f"PaddingCode {code}")
    return SAME_UPPER if code == PaddingCode.SAME else UNPADDED
