"""Images of other sizes."""

from __future__ import annotations

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import Value, channels_first
from circlet.ir import DType
from circlet.ops.operands import known_ints
from circlet.ops.resize import ResizeAttrs

_STORED = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32)


def _target(op: Written, image: Value) -> Value:
    """All sizes of the result, channels first."""
    number, _, _, depth = op[0].shape
    known = known_ints(op.op.input(1))
    if known is not None and number is not None and depth is not None:
        return op.ints([number, depth, *known])
    first = op.node("Slice", [op.node("Shape", [image]), op.ints([0]), op.ints([2])])
    return op.node("Concat", [first, op.whole(op[1])], axis=0)


@writes("RESIZE_BILINEAR")
def _bilinear(op: Written) -> None:
    order = channels_first(4)
    image = op.real(op[0], order)
    given = [image, None, None, _target(op, image)]
    place = op.attrs(ResizeAttrs).coordinate_transformation
    settings = {"coordinate_transformation_mode": place, "mode": "linear"}
    op.give(op.node("Resize", given, **settings), order)


@writes("RESIZE_NEAREST_NEIGHBOR")
def _nearest(op: Written) -> None:
    order, is_stored = channels_first(4), op[0].dtype in _STORED
    value = op.value(op[0], order) if is_stored else op.real(op[0], order)
    place = op.attrs(ResizeAttrs).coordinate_transformation
    made = op.node(
        "Resize",
        [value, None, None, _target(op, value)],
        coordinate_transformation_mode=place,
        mode="nearest",
        nearest_mode="floor" if place == "asymmetric" else "round_prefer_ceil",
    )
    (op.give_stored if is_stored else op.give)(made, order)
