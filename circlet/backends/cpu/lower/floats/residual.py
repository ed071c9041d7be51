"""FUSED_RESIDUAL: convolutions and fully connected layers that add before they store."""

from __future__ import annotations

from dataclasses import replace

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.lower.floats.conv_float import call_convolution, float_conv
from circlet.backends.cpu.lower.floats.epilogue import FloatProduct
from circlet.backends.cpu.lower.floats.float_matrix import call_conv_f32
from circlet.backends.cpu.lower.floats.fully_connected_float import fully_connected
from circlet.backends.cpu.lower.products.product import View
from circlet.backends.cpu.lower.products.windows import conv_border
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, Rank
from circlet.ir import Op, Tensor
from circlet.ops.fused import FUSED_RESIDUAL, FusedAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target

_ADDEND = 3
_RANK = 4


def _parts(op: Op) -> tuple[Op, ...]:
    return op.attributes(FusedAttrs).parts


def _borders(op: Op) -> dict[int, Border]:
    layer = _parts(op)[0]
    return conv_border(layer) if layer.kind == "CONV_2D" else {}


def _is_image(op: Op) -> bool:
    """Whether the layer computes pixels of an image from pixels, wherever those lie."""
    layer, addend = _parts(op)[0], operand(op, _ADDEND)
    if layer.kind == "CONV_2D":
        return True
    data, weights = operand(layer, 0), operand(layer, 1)
    pixels = data.static_shape[-1] == weights.static_shape[1]
    return pixels and len(data.shape) == len(addend.shape) == len(op.outputs[0].shape) == _RANK


def _refuses_images(op: Op, target: Target) -> str | None:
    return None if _is_image(op) else "its rows are not pixels of an image"


def _refuses_rows(op: Op, target: Target) -> str | None:
    return None if _parts(op)[0].kind == "FULLY_CONNECTED" else "is not fully connected"


def _activation(op: Op) -> str:
    return activation_of(_parts(op)[-1])


def _lower_image(op: Op, context: Context) -> None:
    layer, result, addend = _parts(op)[0], op.outputs[0], operand(op, _ADDEND)
    layout = context.layout(addend)
    if layer.kind == "FULLY_CONNECTED":
        product = _pixels_of(layer, result, context)
        even = context.layout(operand(layer, 0)).has_even_pixels
    else:
        product, even = float_conv(layer, context, result), True
    if not even or not _flows(layout, context.layout(result)):
        product = product._replace(sizes=_image_sizes(context.layout(result)))
    view = _view(addend, layout, images=product.sizes[0])
    call = call_convolution if layer.kind == "CONV_2D" else call_conv_f32
    call(_added(product, op, view, layout.channels), context)


def _added(product: FloatProduct, op: Op, addend: View, channels: int) -> FloatProduct:
    """A layer's product as that of the fused operator."""
    epilogue = replace(
        product.epilogue, addend=addend, add_channels=channels, activation=_activation(op)
    )
    return product._replace(op=op, epilogue=epilogue)


def _pixels_of(layer: Op, result: Tensor, context: Context) -> FloatProduct:
    """A fully connected layer over the pixels of an image."""
    source, out = context.layout(operand(layer, 0)), context.layout(result)
    return fully_connected(layer, result)._replace(
        source=View.whole(operand(layer, 0), source),
        result=View.whole(result, out),
        sizes=(1, 1, out.pixels) if out.has_even_pixels else _image_sizes(out),
    )


def _lower_rows(op: Op, context: Context) -> None:
    product = fully_connected(_parts(op)[0], op.outputs[0])
    view = product.result._replace(tensor=operand(op, _ADDEND))
    call_conv_f32(_added(product, op, view, view.pixel), context)


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
        _refuses_images,
        _lower_image,
        borders=_borders,
        strided_inputs=True,
        strided_output=True,
    )
)
LOWERINGS.add(
    Lowering(FUSED_RESIDUAL, "fused_residual_rows", _refuses_rows, _lower_rows, rank=Rank.DENSE)
)
