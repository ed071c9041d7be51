"""ONNX's ScatterND and ScatterElements: updates joined into a copy of the data."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.lower.copy import copy_loops, element_bytes, not_copyable
from circlet.backends.cpu.lower.joins import JOIN_TYPES, join_name
from circlet.backends.cpu.lower.views import Loops, Sizes, outer_fields, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.onnx.record import PREFIX, attributes, axis_of
from circlet.ops.operands import operand
from circlet.target.targets import Target

_AXES = 6
_JOINS = {"none": "UPDATE", "add": "ADD", "mul": "MUL", "max": "MAXIMUM", "min": "MINIMUM"}
_OF_BYTES = {1: "JOIN_U8", 2: "JOIN_U16", 4: "JOIN_U32", 8: "JOIN_U64"}


def _refuses(op: Op, target: Target) -> str | None:
    data, indices, updates = (operand(op, index) for index in range(3))
    reasons = (not_copyable(tensor) for tensor in (data, indices, updates))
    reason = next((reason for reason in reasons if reason is not None), None)
    if reason is not None:
        return reason
    if max(len(data.shape), len(updates.shape)) > _AXES:
        return f"more than {_AXES} axes"
    if _how(op) != "none" and data.dtype not in JOIN_TYPES:
        return f"does not join {data.dtype.name}"
    return None


def _how(op: Op) -> str:
    return str(attributes(op).get("reduction", "none"))


def _strides(shape: Sizes) -> Sizes:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _call(op: Op, context: Context, kernel: str, params: dict[str, ParamValue]) -> None:
    """The data copied, unless they lie in the result's place, and what is joined into them."""
    data, indices, updates = (operand(op, index) for index in range(3))
    result = op.outputs[0]
    if not context.shares(data, result):
        whole = Loops((result.elements,), ((1,), (1,)))
        copy_loops(op, context, source_ref(context, data), TensorRef(result), whole)
    join = join_name(_JOINS[_how(op)], result.dtype, keeps_first=False)
    is_update = join == "JOIN_UPDATE"
    kind = _OF_BYTES[element_bytes(result)] if is_update else JOIN_TYPES[result.dtype]
    arguments = (element_bytes(indices), join, kind)
    operands = (source_ref(context, indices), source_ref(context, updates), TensorRef(result))
    context.call(op, Kernel("scatter.h", kernel, arguments), params, operands, (result,))


def _lower_vectors(op: Op, context: Context) -> None:
    shape, indices = operand(op, 0).static_shape, operand(op, 1)
    depth = indices.static_shape[-1]
    after = [0] * (_AXES - depth)
    params: dict[str, ParamValue] = {
        "rows": indices.elements // depth,
        "depth": depth,
        "run": prod(shape[depth:]),
        "sizes": [*shape[:depth], *after],
        "strides": [*_strides(shape)[:depth], *after],
    }
    _call(op, context, "scatter_vectors", params)


def _lower_elements(op: Op, context: Context) -> None:
    shape, walked = operand(op, 0).static_shape, operand(op, 1).static_shape
    axis = axis_of(attributes(op).get("axis", 0), len(shape))
    strides = list(_strides(shape))
    stride, strides[axis] = strides[axis], 0
    params: dict[str, ParamValue] = {
        "rows": prod(walked[:-1]),
        "inner": walked[-1],
        "step": strides[-1],
        "size": shape[axis],
        "stride": stride,
        "sizes": outer_fields(walked[:-1], _AXES),
        "steps": [*[0] * (_AXES - len(strides) + 1), *strides[:-1], 0],
    }
    _call(op, context, "scatter_elements", params)


def _refuses_vectors(op: Op, target: Target) -> str | None:
    data, indices, updates = (operand(op, index) for index in range(3))
    depth = indices.static_shape[-1] if indices.shape else 0
    wanted = (*indices.static_shape[:-1], *data.static_shape[depth:])
    if not 1 <= depth <= len(data.shape) or updates.static_shape != wanted:
        return "operands do not fit each other"
    return _refuses(op, target)


def _refuses_elements(op: Op, target: Target) -> str | None:
    data, indices, updates = (operand(op, index) for index in range(3))
    axis = attributes(op).get("axis", 0)
    rank, sizes = len(data.shape), indices.static_shape
    fits = rank and -rank <= axis < rank and len(sizes) == rank and updates.static_shape == sizes
    pairs = enumerate(zip(sizes, data.static_shape, strict=False))
    if not fits or any(own > whole for at, (own, whole) in pairs if at != axis % rank):
        return "operands do not fit each other"
    return _refuses(op, target)


LOWERINGS.add(
    Lowering(f"CUSTOM:{PREFIX}ScatterND", "scatter_vectors", _refuses_vectors, _lower_vectors)
)
for _kind in ("ScatterElements", "Scatter"):
    LOWERINGS.add(
        Lowering(f"CUSTOM:{PREFIX}{_kind}", "scatter_elements", _refuses_elements, _lower_elements)
    )
