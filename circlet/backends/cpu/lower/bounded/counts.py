"""Counts that follow from others, lists of them, and what they are told to: `bounded.h`."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.copy import element_bytes, fill_pattern, not_copyable
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.bounded import (
    CONCATENATION,
    SIZE,
    SIZE_LIST,
    TAIL,
    TURNS,
    WHERE,
    AxisAttrs,
    SizeAttrs,
    SizeListAttrs,
    TailAttrs,
    TurnsAttrs,
    WhereAttrs,
    leading_axis,
)
from circlet.ops.operands import operand
from circlet.target.targets import Target

_MOST_NUMBERS = 32
_AXES = 6


def ref_or_none(context: Context, tensor: Tensor | None) -> Ref:
    """The address of an operand that may be omitted."""
    return NoRef() if tensor is None else source_ref(context, tensor)


def _sources(op: Op, context: Context) -> list[Ref]:
    return [ref_or_none(context, tensor) for tensor in op.inputs]


def _lower_size(op: Op, context: Context) -> None:
    attrs = op.attributes(SizeAttrs)
    params: dict[str, ParamValue] = {
        "terms": len(op.inputs),
        "has_constant": int(attrs.constant is not None),
        "constant": attrs.constant or 0,
    }
    operands = [*_sources(op, context), TensorRef(op.outputs[0])]
    kernel = Kernel("bounded.h", "bounded_size", (f"BOUNDED_{attrs.form.upper()}",))
    context.call(op, kernel, params, operands, op.outputs)


def _refuses_list(op: Op, target: Target) -> str | None:
    if len(op.attributes(SizeListAttrs).elements) > _MOST_NUMBERS:
        return f"lists of more than {_MOST_NUMBERS} sizes"
    known = op.outputs[0].dtype in (DType.INT32, DType.INT64)
    return None if known else f"sizes of type {op.outputs[0].dtype.name}"


def _lower_list(op: Op, context: Context) -> None:
    elements, result = op.attributes(SizeListAttrs).elements, op.outputs[0]
    unused = [0] * (_MOST_NUMBERS - len(elements))
    params: dict[str, ParamValue] = {
        "counts": len(op.inputs),
        "elements": len(elements),
        "inputs": [value if is_input else -1 for is_input, value in elements] + unused,
        "constants": [0 if is_input else value for is_input, value in elements] + unused,
    }
    operands = [*_sources(op, context), TensorRef(result)]
    kernel = Kernel("bounded.h", "bounded_size_list", (element_bytes(result),))
    context.call(op, kernel, params, operands, op.outputs)


def _refuses_where(op: Op, target: Target) -> str | None:
    given = operand(op, 0)
    if given.dtype.bits not in (8, 32, 64) or given.dtype is DType.FLOAT64:
        return f"does not take {given.dtype.name}"
    return not_copyable(given) or not_copyable(op.outputs[0])


def _lower_where(op: Op, context: Context) -> None:
    given = operand(op, 0)
    shape, leading = given.static_shape, leading_axis(given)
    rows, is_transposed = prod(shape[:-1]), op.attributes(WhereAttrs).is_transposed
    params: dict[str, ParamValue] = {
        "rows": rows,
        "inner": shape[-1],
        "per_count": rows // shape[leading] if leading < len(shape) - 1 else 1,
        "axes": len(shape),
        "room": op.outputs[0].static_shape[int(is_transposed)],
        "sizes": [*shape[:-1], *(1,) * (_AXES - len(shape) + 1)],
    }
    operands = [*_sources(op, context), *map(TensorRef, op.outputs)]
    arguments = (element_bytes(given), int(given.dtype is DType.FLOAT32), int(is_transposed))
    context.call(op, Kernel("bounded.h", "bounded_where", arguments), params, operands, op.outputs)


def _refuses_concatenation(op: Op, target: Target) -> str | None:
    parts = [operand(op, index) for index in range(len(op.inputs) // 2)]
    return next((reason for t in (*parts, op.outputs[0]) if (reason := not_copyable(t))), None)


def _lower_concatenation(op: Op, context: Context) -> None:
    result, axis = op.outputs[0], op.attributes(AxisAttrs).axis
    params: dict[str, ParamValue] = {
        "parts": len(op.inputs) // 2,
        "rows": result.static_shape[axis],
        "row_bytes": prod(result.static_shape[axis + 1 :]) * element_bytes(result),
    }
    operands = [*_sources(op, context), TensorRef(result)]
    kernel = Kernel("bounded.h", "bounded_concatenation")
    context.call(op, kernel, params, operands, op.outputs)


def _refuses_tail(op: Op, target: Target) -> str | None:
    return not_copyable(op.outputs[0])


def _lower_tail(op: Op, context: Context) -> None:
    attrs, result = op.attributes(TailAttrs), op.outputs[0]
    shape = result.static_shape
    params: dict[str, ParamValue] = {
        "rows": prod(shape[: attrs.axis]),
        "size": shape[attrs.axis],
        "run_bytes": prod(shape[attrs.axis + 1 :]) * element_bytes(result),
        "pattern": fill_pattern(result, attrs.value),
    }
    operands = [*_sources(op, context), TensorRef(result)]
    tasks = prod(shape[: attrs.axis])
    context.call(op, Kernel("bounded.h", "bounded_tail"), params, operands, op.outputs, tasks=tasks)


def _lower_turns(op: Op, context: Context) -> None:
    params: dict[str, ParamValue] = {"most": op.attributes(TurnsAttrs).most}
    operands = [*_sources(op, context), TensorRef(op.outputs[0]), StopRef()]
    context.call(op, Kernel("bounded.h", "bounded_turns"), params, operands, op.outputs)


LOWERINGS.add(Lowering(TURNS, "turns", lambda op, target: None, _lower_turns))
LOWERINGS.add(Lowering(SIZE, "size", lambda op, target: None, _lower_size))
LOWERINGS.add(Lowering(SIZE_LIST, "size_list", _refuses_list, _lower_list))
LOWERINGS.add(Lowering(WHERE, "bounded_where", _refuses_where, _lower_where))
LOWERINGS.add(
    Lowering(CONCATENATION, "bounded_concatenation", _refuses_concatenation, _lower_concatenation)
)
LOWERINGS.add(Lowering(TAIL, "bounded_tail", _refuses_tail, _lower_tail))
