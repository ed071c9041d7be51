"""Options of MediaPipe's custom operators: C structures of 32-bit numbers, and maps."""

from __future__ import annotations

from struct import pack, unpack_from

from circlet.errors import FormatError
from circlet.formats.flexbuffer_writer import flexbuffer_map
from circlet.formats.options.maps import read_options
from circlet.ir import Op
from circlet.ops.mediapipe.pooling import ArgmaxPoolAttrs
from circlet.ops.mediapipe.transform import TransformTensorAttrs
from circlet.ops.mediapipe.transpose_conv_bias import TransposeConvBiasAttrs

_PADDINGS = {1: "SAME", 2: "VALID"}
_ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}


def decode_transpose_conv_bias(data: bytes) -> TransposeConvBiasAttrs:
    """The attributes in a TfLiteTransposeConvParams: padding, strides across and down.

    Raises:
        FormatError: It is too short, or has no such padding.
    """
    padding, across, down = _numbers(data, 3)
    return TransposeConvBiasAttrs(_named(padding, _PADDINGS), (down, across))


def encode_transpose_conv_bias(op: Op) -> bytes:
    """The TfLiteTransposeConvParams that says an op's attributes."""
    attrs = op.attributes(TransposeConvBiasAttrs)
    down, across = attrs.strides
    return pack("<5i", _number(attrs.padding, _PADDINGS), across, down, 0, 0)


def decode_pool(data: bytes) -> ArgmaxPoolAttrs:
    """The attributes in a TfLitePoolParams: padding, strides, windows, activation.

    Raises:
        FormatError: It is too short, or has no such padding or activation.
    """
    padding, across, down, columns, rows, activation = _numbers(data, 6)
    named = _named(padding, _PADDINGS), _named(activation, _ACTIVATIONS)
    return ArgmaxPoolAttrs(named[0], (down, across), (rows, columns), named[1])


def encode_pool(op: Op) -> bytes:
    """The TfLitePoolParams that says an op's attributes; what kernels compute in it is zero."""
    attrs = op.attributes(ArgmaxPoolAttrs)
    (down, across), (rows, columns) = attrs.strides, attrs.kernel_shape
    words = _number(attrs.padding, _PADDINGS), _number(attrs.activation, _ACTIVATIONS)
    return pack("<10i", words[0], across, down, columns, rows, words[1], 0, 0, 0, 0)


def decode_transform(data: bytes) -> TransformTensorAttrs:
    """The attributes in a map: `output_size`, or `output_height` and `output_width`.

    Raises:
        FormatError: The bytes are no such map, or it asks for another than bilinear weights.
    """
    entries = read_options(data)
    if entries.get("mode", "bilinear") != "bilinear":
        raise FormatError("images are transformed with bilinear weights only", where="mode")
    sizes = entries.get("output_size")
    if sizes is None:
        sizes = [entries.get("output_height", 0), entries.get("output_width", 0)]
    if not isinstance(sizes, list) or len(sizes) != 2 or not _are_whole(sizes):
        raise FormatError("the sizes of an image are two whole numbers", why=repr(sizes))
    return TransformTensorAttrs(*sizes)


def encode_transform(op: Op) -> bytes:
    """The map that says an op's attributes, as files of its version have it."""
    attrs = op.attributes(TransformTensorAttrs)
    if op.version > 1:
        return flexbuffer_map(vars(attrs))
    sizes = [attrs.output_height, attrs.output_width]
    return flexbuffer_map({"mode": "bilinear", "output_size": sizes})


def _are_whole(values: list[object]) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _numbers(data: bytes, count: int) -> tuple[int, ...]:
    if len(data) < 4 * count:
        raise FormatError(
            "custom options are too short", why=f"{len(data)} bytes, {4 * count} are needed"
        )
    return unpack_from(f"<{count}i", data)


def _named(number: int, names: dict[int, str]) -> str:
    if number not in names:
        raise FormatError("a custom option has no such value", why=f"{number} of {names}")
    return names[number]


def _number(name: str, names: dict[int, str]) -> int:
    found = {text: number for number, text in names.items()}
    if name not in found:
        raise FormatError("a custom option has no such value", why=f"{name!r} of {list(found)}")
    return found[name]
