"""Recipes of element-wise kinds, of those over the last axis, and of changes of number forms."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Quantization
from circlet.ops import OpDef
from circlet.ops.operands import QUANTISED
from tests.generated.case import Form, Parts
from tests.generated.draw import Draw, Operand
from tests.generated.recipes.common import Recipe, drawn_attrs, one_operand, output_quant, result


def spread(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Operands that broadcast to common sizes of any rank; once in a while some that do not."""
    whole, types = draw.shape(0, 6), [dtype for dtype in form.inputs if dtype is not None]
    is_even = draw.chance(0.3)
    operands = [draw.data(dtype, whole if is_even else draw.spread(whole)) for dtype in types]
    if draw.chance(0.02):
        operands[-1] = draw.data(operands[-1].dtype, (*whole, 3))
    if form.output is DType.BOOL:
        operands = [_comparable(operand) for operand in operands]
    attrs = drawn_attrs(draw, record)
    return Parts(operands, attrs, result(draw, record, form, operands[0]))


def _comparable(operand: Operand) -> Operand:
    """Compared values need scales below 1."""
    if operand.quant is None or operand.quant.scale[0] < 1:
        return operand
    scale = Quantization.per_tensor(0.25, operand.quant.first[1])
    return Operand(operand.array, scale, operand.constant)


def divided(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Two operands, the second without zeros in most cases of whole numbers."""
    made = spread(draw, record, form)
    first, second = made.operands
    assert first is not None and second is not None
    if form.input(1).is_integer and draw.chance(0.9):
        zero = 0 if second.quant is None else second.quant.first[1]
        array = np.where(second.array == zero, second.array.dtype.type(1), second.array)
        array = np.where(array == zero, second.array.dtype.type(2), array)
        second = Operand(array, second.quant, second.constant)
    return Parts([first, second], made.attrs, made.results)


def shifted(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Amounts of a shift that the type has bits for; some shifts to the right have more."""
    made = spread(draw, record, form)
    second = made.operands[1]
    assert second is not None
    if draw.chance(0.8) or "LEFT" in record.kind:
        amounts = draw.rng.integers(0, form.input(1).bits, second.array.shape)
        second = Operand(amounts.astype(second.array.dtype), None, second.constant)
    return Parts([made.operands[0], second], made.attrs, made.results)


def selected(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A condition and two values, broadcast where the kind allows."""
    whole = draw.shape(0, 5)
    is_v2 = record.kind.endswith("V2")
    shapes = [draw.spread(whole) if is_v2 else whole for _ in range(3)]
    if not is_v2 and whole and draw.chance(0.3):
        shapes[0] = whole[:1]
    quant = draw.quant(form.any)
    data = [draw.data(form.any, shape, quant) for shape in shapes[1:]]
    condition = draw.data(DType.BOOL, shapes[0])
    return Parts([condition, *data], None, result(draw, record, form, data[0]))


def cast(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Attributes that name the types of both ends."""
    names = {"in_data_type": form.input(0).name, "out_data_type": form.output.name}
    values = draw.values(form.input(0), draw.shape())
    if values.dtype.kind == "f" and form.output.is_integer and draw.chance(0.7):
        info = np.iinfo(form.output.name.lower())
        widest = float(np.finfo(values.dtype.name).max)
        low, high = max(info.min * 0.99, -widest), min(info.max * 0.99, widest)
        inside = np.nan_to_num(values.astype(np.float64)).clip(low, high)
        values = inside.astype(values.dtype)
    source = Operand(values, None, draw.chance(0.1))
    return Parts([source], drawn_attrs(draw, record, **names), [(form.output, None)])


def requantised(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A change of scales; INT32 has them too."""
    wide = Quantization.per_tensor(2.0**-8 * float(draw.rng.uniform(0.5, 2)), 0)
    quant = wide if form.input(0) is DType.INT32 else None
    source = draw.data(form.input(0), draw.shape(), quant)
    made = wide if form.output is DType.INT32 else output_quant(draw, record, form.output, None)
    return Parts([source], None, [(form.output, made)])


def prelu(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Slopes that spread over the input."""
    whole = draw.shape(1, 4)
    slopes = tuple(1 if draw.chance(0.3) else size for size in whole[draw.pick((0, -1)) :])
    source, slope = draw.data(form.input(0), whole), draw.data(form.input(1), slopes, None, 0.7)
    return Parts([source, slope], None, result(draw, record, form, source))


def summed(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Any number of operands of the same sizes."""
    shape = draw.shape(0, 4)
    parts = [draw.data(form.input(0), shape) for _ in range(draw.integer(1, 5))]
    return Parts(parts, None, result(draw, record, form))


def fake_quantised(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A range around zero."""
    low, high = draw.pick(((-1.0, 1.0), (-3.0, 7.5), (0.0, 6.0), (-10.0, 0.0)))
    source = draw.data(form.input(0), draw.shape())
    return Parts([source], drawn_attrs(draw, record, min=low, max=high), [(form.output, None)])


def bucketized(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Rising boundaries."""
    borders = np.sort(draw.rng.standard_normal(draw.integer(1, 6)).astype(np.float32) * 3)
    attrs = drawn_attrs(draw, record, boundaries=tuple(float(border) for border in borders))
    return Parts([draw.data(form.input(0), draw.shape())], attrs, [(form.output, None)])


def bitcast(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A last axis that the wider type divides."""
    shape = draw.shape(0, 3)
    if form.output.bits > form.input(0).bits:
        shape = (*shape, form.output.bits // form.input(0).bits)
    source = Operand(draw.values(form.input(0), shape), None, draw.chance(0.1))
    return Parts([source], None, [(form.output, None)])


def softmax(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A last axis, and scales as real networks have them."""
    scale = 2.0**-12 if form.input(0) is DType.INT16 else 2.0 ** draw.rng.uniform(-6, -2)
    zero = 0 if form.input(0) is DType.INT16 else draw.pick((0, 3))
    quant = Quantization.per_tensor(scale, zero) if form.input(0) in QUANTISED else None
    source = draw.data(form.input(0), draw.shape(1, 4), quant)
    results = result(draw, record, form, source)
    if form.output is DType.INT16:
        wide = (2.0**-15, 0) if form.input(0) is DType.INT16 else (2.0**-16, -(2**15))
        results = [(form.output, Quantization.per_tensor(*wide))]
    return Parts([source], drawn_attrs(draw, record), results)


def bounded(draw: Draw, record: OpDef, form: Form) -> Parts:
    """One operand; int16 forms have scales that are powers of two."""
    quant = Quantization.per_tensor(2.0**-12, 0) if form.input(0) is DType.INT16 else None
    source = draw.data(form.input(0), draw.shape(), quant)
    return Parts([source], None, result(draw, record, form, source))


ELEMENTWISE: dict[str, Recipe] = {
    "ADD_N": summed,
    "BITCAST": bitcast,
    "BUCKETIZE": bucketized,
    "CAST": cast,
    "COMPLEX_ABS": one_operand(),
    "DEQUANTIZE": one_operand(),
    "DIV": divided,
    "FAKE_QUANT": fake_quantised,
    "FLOOR_DIV": divided,
    "FLOOR_MOD": divided,
    "IMAG": one_operand(),
    "L2_NORMALIZATION": one_operand(1, 4, activation="NONE"),
    "LOGISTIC": bounded,
    "LOG_SOFTMAX": softmax,
    "PRELU": prelu,
    "QUANTIZE": requantised,
    "REAL": one_operand(),
    "SELECT": selected,
    "SELECT_V2": selected,
    "SOFTMAX": softmax,
    "TANH": bounded,
}
