"""FUSED_RESIDUAL: convolutions and fully connected layers that add before they store."""

from __future__ import annotations

from dataclasses import replace

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.lower.conv_float import call_convolution, convolution, window_borders
from circlet.backends.cpu.lower.float_matrix import call_matrix
from circlet.backends.cpu.lower.fully_connected_float import fully_connected
from circlet.backends.cpu.lower.matrix import View
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.backends.cpu.targets import Target
from circlet.ir import Op, Tensor
from circlet.ops.fused import FUSED_RESIDUAL, FusedAttrs
from circlet.ops.operands import operand

_ADDEND = 3


def _takes(op: Op, target: Target) -> None:
    """The pass fuses only what this lowering takes."""


def _parts(op: Op) -> tuple[Op, ...]:
    assert isinstance(op.attrs, FusedAttrs)
    return op.attrs.parts


def _borders(op: Op) -> dict[int, Border]:
    layer = _parts(op)[0]
    return window_borders(layer) if layer.kind == "CONV_2D" else {}


def _lower(op: Op, context: Context) -> None:
    layer, result, addend = _parts(op)[0], op.outputs[0], operand(op, _ADDEND)
    activation = getattr(_parts(op)[-1].attrs, "fused_activation_function", "NONE")
    if layer.kind == "FULLY_CONNECTED":
        matrix = fully_connected(layer, result)
        view = replace(matrix.result, tensor=addend)
        added = replace(matrix, addend=view, add_channels=view.pixel, activation=activation)
        call_matrix(op, context, added)
        return
    layout = context.layout(addend)
    matrix = convolution(layer, context, result)
    if not _flows(layout, context.layout(result)):
        matrix = replace(matrix, sizes=_image_sizes(context.layout(result)))
    view = _view(addend, layout, images=matrix.sizes[0])
    added = replace(matrix, addend=view, add_channels=layout.channels, activation=activation)
    call_convolution(op, context, added)


def _view(tensor: Tensor, layout: Layout, images: int) -> View:
    """The pixels of an addend of so many images; one pixel serves a whole image.

    Images of one pixel that flow together into one row have a pixel each.
    """
    batch = layout.batch_stride if layout.batch > 1 else 0
    if layout.height == layout.width == 1 and layout.batch in (1, images):
        return View(tensor, 0, batch, 0, 0)
    return View(tensor, 0, batch, layout.row_stride, layout.pixel_stride)


def _flows(addend: Layout, result: Layout) -> bool:
    """Whether the addend's pixels can be seen as one row where the result's can."""
    return addend.pixels == 1 or (addend.has_even_pixels and addend.pixels == result.pixels)


def _image_sizes(result: Layout) -> tuple[int, int, int]:
    return result.batch, result.height, result.width


LOWERINGS.add(
    Lowering(
        FUSED_RESIDUAL,
        "fused_residual",
        _takes,
        _lower,
        borders=_borders,
        strided_inputs=True,
        strided_output=True,
    )
)
