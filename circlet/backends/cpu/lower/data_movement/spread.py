"""DILATE and STABLEHLO_PAD: a value everywhere, then elements at their places."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.cpu.lower.data_movement.slices import copy_from, not_movable, strides_in
from circlet.backends.cpu.lower.views import MAX_AXES, Loops
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, TensorRef
from circlet.ir import Op
from circlet.ops.operands import known_ints, operand
from circlet.ops.stablehlo.pad import Spread, dilate_spreads, pad_spreads
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    if op.kind == "DILATE" and known_ints(op.input(1)) is None:
        return "the steps are not constant"
    if len(op.outputs[0].static_shape) > MAX_AXES - 1:
        return f"rank {len(op.outputs[0].static_shape)} is above {MAX_AXES - 1}"
    return not_movable(op.outputs[0]) or not_movable(operand(op, 0))


def _lower(op: Op, context: Context, axes: Sequence[Spread], value: int) -> None:
    source, result = operand(op, 0), op.outputs[0]
    own, strides = strides_in(context, source), strides_in(context, result)
    shape, filler = result.static_shape, operand(op, value)
    if source.static_shape != shape or any(axis.low or axis.step > 1 for axis in axes):
        spread = Loops(shape, ((0,) * len(shape), strides))
        copy_from(op, context, filler, TensorRef(result), spread)
    kept = [axis.kept(size) for axis, size in zip(axes, source.static_shape, strict=True)]
    if not all(kept):
        return
    start = sum(part.start * stride for part, stride in zip(kept, own, strict=True))
    rows = list(zip(axes, kept, strides, strict=True))
    first = sum((axis.low + part.start * axis.step) * stride for axis, part, stride in rows)
    targets = tuple(axis.step * stride for axis, _, stride in rows)
    loops = Loops(tuple(map(len, kept)), (own, targets))
    copy_from(op, context, source, TensorRef(result, first), loops, start)


def _lower_dilate(op: Op, context: Context) -> None:
    steps = known_ints(op.input(1)) or ()
    _lower(op, context, dilate_spreads(operand(op, 0).static_shape, steps), 2)


def _lower_pad(op: Op, context: Context) -> None:
    _lower(op, context, pad_spreads(op, operand(op, 0).static_shape), 1)


for _kind, _spread in {"DILATE": _lower_dilate, "STABLEHLO_PAD": _lower_pad}.items():
    LOWERINGS.add(
        Lowering(
            _kind,
            f"{_kind.lower()}_places",
            _refuses,
            _spread,
            strided_inputs=True,
            strided_output=True,
        )
    )
