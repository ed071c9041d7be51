"""Between stored integers and real numbers."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.writers.elementwise import computed
from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import NotWrittenError, Order, Value, elements, is_quantised
from circlet.ir import DType, Tensor
from circlet.ir.builder import constant
from circlet.ops.math import FakeQuantAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.ops.onnx.record import OnnxAttrs


@writes("QUANTIZE")
def _quantize(op: Written) -> None:
    if not is_quantised(op.result):
        raise NotWrittenError(f"its result of type {op.result.dtype.name} has no scale")
    if op[0].dtype is DType.INT32:
        raise NotWrittenError("sums of INT32 are not quantised so")
    computed(op, [op[0]], lambda x: x[0])


@writes("DEQUANTIZE")
def _dequantize(op: Written) -> None:
    data = op[0]
    if data.dtype is DType.FLOAT16:
        if op.graph.is_lazy(data):
            op.graph.make_later(op.result, lambda order: _wide(op, data, order))
            return
        order = op.order([data])
        op.give_stored(_wide(op, data, order), order)
        return
    if not is_quantised(data):
        raise NotWrittenError(f"its operand of type {data.dtype.name} has no scale")
    if op.graph.is_lazy(data):
        op.graph.make_later(op.result, lambda order: op.real(data, order))
        return
    order = op.order([data])
    op.give_stored(op.real(data, order), order)


def _wide(op: Written, data: Tensor, order: Order) -> Value:
    return op.cast(op.value(data, order), DType.FLOAT32)


@writes("DENSIFY")
def _densify(op: Written) -> None:
    data = op[0]
    op.graph.make_later(op.result, lambda order: op.value(data, order))


@writes("FAKE_QUANT")
def _fake_quant(op: Written) -> None:
    """Clamped to the range, moved so that zero is a step, and rounded to steps."""
    attrs = op.attrs(FakeQuantAttrs)
    least, most = float(int(attrs.narrow_range)), float(2**attrs.num_bits - 1)
    scale = (np.float32(attrs.max) - np.float32(attrs.min)) / np.float32(most - least)
    zero = np.clip(np.floor(least - attrs.min / scale + 0.5), least, most)
    low, high = np.float32((least - zero) * scale), np.float32((most - zero) * scale)

    def compute(operands: list[Value]) -> Value:
        inside = op.node("Clip", [operands[0], op.constant(low), op.constant(high)])
        moved = op.node("Div", [op.node("Sub", [inside, op.constant(low)]), op.constant(scale)])
        steps = op.node("Floor", [op.node("Add", [moved, op.constant(np.float32(0.5))])])
        return op.node("Add", [op.node("Mul", [steps, op.constant(scale)]), op.constant(low)])

    computed(op, [op[0]], compute)


@writes(QUANTIZE, DEQUANTIZE)
def _as_onnx(op: Written) -> None:
    """Operators that came from .onnx files; their scales may be as wide as what they belong to."""
    data, kind = op[0], op.op.custom_code.rpartition(".")[2]
    attributes = {k: v for k, v in op.attrs(OnnxAttrs).values if k != "block_size" or v}

    def made(order: Order) -> Value:
        axes, operands = dict(attributes), [op.value(data, order)]
        for index in (1, 2):
            tensor = op.op.input(index)
            if tensor is not None:
                operands.append(_along(op, tensor, data, order, axes))
        if order != tuple(range(len(order))) and "axis" not in axes and _has_channels(op):
            raise NotWrittenError("its scales are those of an axis")
        return op.node(kind, operands, **axes)

    if op.graph.is_lazy(data):
        op.graph.make_later(op.result, made)
        return
    order = op.order([data]) if not _has_channels(op) or "axis" not in attributes else None
    op.give_stored(made(order or tuple(range(len(data.shape)))), order)


def _has_channels(op: Written) -> bool:
    return any(t is not None and t.elements > 1 for t in op.op.inputs[1:])


def _along(
    op: Written, values: Tensor, data: Tensor, order: Order, attributes: dict[str, object]
) -> Value:
    """Scales or zero points as a list along an axis, which is put into the attributes."""
    is_listed = len(values.shape) < 2 and len(data.shape) != 1
    if values.data is None or is_listed:
        if values.elements > 1 and order != tuple(range(len(data.shape))):
            axis = attributes.get("axis", 1)
            assert isinstance(axis, int)
            (place,) = op.axes([axis], len(data.shape))
            attributes["axis"] = order.index(place + len(order) - len(data.shape))
        return op.value(values)
    flat = elements(values, tuple(range(len(values.shape)))).reshape(-1)
    if flat.size == 1:
        return op.value(constant(values.name, flat.reshape(())))
    long = [axis for axis, size in enumerate(values.static_shape) if size != 1]
    if len(long) != 1:
        raise NotWrittenError("its scales are those of several axes")
    attributes["axis"] = order.index(long[0] + len(order) - len(data.shape))
    return op.graph.constant(flat, values.name)
