"""MaxPoolingWithArgmax2D, MaxUnpooling2D and TransformTensorBilinear."""

from __future__ import annotations

from circlet.backends.cpu.lower.floats.epilogue import CLAMPS
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops import get
from circlet.ops.mediapipe.pooling import ArgmaxPoolAttrs, before_first
from circlet.ops.mediapipe.transform import is_centred
from circlet.ops.operands import operand
from circlet.target.targets import Target

_MOST_TASK_WORK = 1 << 29


def _refuses(op: Op, tasks: int) -> str | None:
    if op.outputs[0].elements == 0:
        return "a size is 0"
    if get(op).cost(op).work > _MOST_TASK_WORK * tasks:
        return "a task, which nothing stops, is too much work"
    return None


def _pool_params(op: Op, image: int, windows: int) -> dict[str, ParamValue]:
    """The fields of a pool; `image` and `windows` say which of input and output has which sizes."""
    attrs = op.attributes(ArgmaxPoolAttrs)
    sizes = [tensor.static_shape for tensor in (operand(op, 0), op.outputs[0])]
    pads = [
        before_first(attrs, axis, sizes[image][axis + 1], sizes[windows][axis + 1])
        for axis in range(2)
    ]
    fields: dict[str, int] = {
        **dict(zip(("height", "width", "depth"), sizes[0][1:], strict=True)),
        **dict(zip(("out_height", "out_width"), sizes[1][1:3], strict=True)),
        **dict(zip(("down", "across"), attrs.strides, strict=True)),
        **dict(zip(("rows", "columns"), attrs.kernel_shape, strict=True)),
        **dict(zip(("top", "left"), pads, strict=True)),
    }
    return {f"at_{name}": value for name, value in fields.items()}


def _lower_pool(op: Op, context: Context) -> None:
    batch, height = op.outputs[0].static_shape[:2]
    operands = (source_ref(context, operand(op, 0)), *map(TensorRef, op.outputs))
    low, high = CLAMPS[op.attributes(ArgmaxPoolAttrs).activation]
    params = _pool_params(op, 0, 1) | {"low": low, "high": high}
    kernel = Kernel("mediapipe.h", "argmax_pool")
    context.call(op, kernel, params, operands, op.outputs, tasks=batch * height)


def _lower_unpool(op: Op, context: Context) -> None:
    sources = (source_ref(context, operand(op, index)) for index in range(2))
    operands = (*sources, TensorRef(op.outputs[0]))
    kernel, params = Kernel("mediapipe.h", "max_unpool"), _pool_params(op, 1, 0)
    tasks = op.outputs[0].static_shape[0]
    context.call(op, kernel, params, operands, op.outputs, tasks=tasks)


def _lower_transform(op: Op, context: Context) -> None:
    _, height, width, depth = operand(op, 0).static_shape
    _, out_height, out_width, _ = op.outputs[0].static_shape
    params: dict[str, ParamValue] = {
        "height": height,
        "width": width,
        "depth": depth,
        "out_width": out_width,
        "is_centred": int(is_centred(op)),
    }
    sources = (source_ref(context, operand(op, index)) for index in range(2))
    operands = (*sources, TensorRef(op.outputs[0]))
    kernel = Kernel("mediapipe.h", "transform_image")
    context.call(op, kernel, params, operands, op.outputs, tasks=out_height)


def _refuses_rows(op: Op, target: Target) -> str | None:
    return _refuses(op, op.outputs[0].static_shape[1])


def _refuses_images(op: Op, target: Target) -> str | None:
    return _refuses(op, op.outputs[0].static_shape[0])


LOWERINGS.add(Lowering("CUSTOM:MaxPoolingWithArgmax2D", "argmax_pool", _refuses_rows, _lower_pool))
LOWERINGS.add(Lowering("CUSTOM:MaxUnpooling2D", "max_unpool", _refuses_images, _lower_unpool))
for _code in ("TransformTensorBilinear", "TransformTensor"):
    LOWERINGS.add(Lowering(f"CUSTOM:{_code}", _code.lower(), _refuses_rows, _lower_transform))
