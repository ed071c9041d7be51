"""How files store windows: strides, dilations, and padding as SAME or VALID."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlet.errors import FormatError
from circlet.formats.options.part import Part, paired
from circlet.ir import Op, Shape
from circlet.ops.conv import window_of
from circlet.ops.conv3d import windows_of
from circlet.ops.geometry import SAME_UPPER, Padding, Window, Window2D, pads_as_same
from circlet.ops.operands import operand
from circlet.ops.pool import pool_window_of
from circlet.ops.transpose_conv import transposed_window_of

# The sizes that windows slide along, and the windows.
Axes = tuple[Shape, Sequence[Window]]

STRIDES = paired("strides", "stride_h", "stride_w")
DILATIONS = paired("dilations", "dilation_h_factor", "dilation_w_factor")
KERNEL = paired("kernel_shape", "filter_height", "filter_width")
STRIDES_3D = paired("strides", "stride_d", "stride_h", "stride_w")
DILATIONS_3D = paired("dilations", "dilation_d_factor", "dilation_h_factor", "dilation_w_factor")


def _padding(rank: int, axes: Callable[[Op], Axes]) -> Part:
    meanings = {"SAME": SAME_UPPER, "VALID": ((0, 0),) * rank}
    return Part(
        "padding",
        ("padding",),
        lambda fields: meanings.get(str(fields["padding"]), fields["padding"]),
        lambda op: {"padding": _stored(op, vars(op.attrs)["padding"], axes)},
    )


def _stored(op: Op, padding: Padding, axes: Callable[[Op], Axes]) -> str:
    """The word for a padding; amounts are SAME where the sizes are known and give the same."""
    if padding == SAME_UPPER:
        return "SAME"
    if isinstance(padding, tuple) and not any(map(any, padding)):
        return "VALID"
    if pads_as_same(padding, *axes(op)):
        return "SAME"
    raise FormatError(
        "the padding of an operator cannot be stored",
        where=f"{op.name} ({op.label})",
        why=f"files know SAME and VALID, not {padding}",
        fix="run the pass split-padding of `circlet optimize`, which makes operators of paddings; "
        "where the sizes of an average's image are open, settle them first by `circlet resize`",
    )


def _image(window: Callable[[Op], Window2D]) -> Callable[[Op], Axes]:
    return lambda op: (operand(op, 0).shape[1:3], window(op)[1:])


PADDING = _padding(2, _image(window_of))
POOL_PADDING = _padding(2, _image(pool_window_of))
TRANSPOSED_PADDING = _padding(
    2, lambda op: (op.outputs[0].shape[1:3], transposed_window_of(op)[1:])
)
PADDING_3D = _padding(3, lambda op: (operand(op, 0).shape[1:4], windows_of(op)))
TRANSPOSED_PADDING_3D = _padding(3, lambda op: (op.outputs[0].shape[1:4], windows_of(op)))
