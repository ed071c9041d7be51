"""What recipes share: a recipe makes the operands of one case for one form of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from circlet.ir import DType, Quantization
from circlet.ops import OpDef
from circlet.ops.operands import QUANTISED
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES
from tests.generated.case import Form, Parts
from tests.generated.draw import Draw, Operand

Recipe = Callable[[Draw, OpDef, Form], Parts]
Result = tuple[DType, Quantization | None]

# What attributes may be, by name, where it does not depend on sizes.
CHOICES: dict[str, Sequence[object]] = {
    "activation": tuple(FLOAT_ACTIVATION_RANGES),
    "adj_x": (False, True),
    "adj_y": (False, True),
    "alpha": (0.0, 0.1, 0.25, 1.0, -0.5, 2.0),
    "approximate": (False, True),
    "asymmetric_quantize_inputs": (False, True),
    "beta": (1.0, 0.5, 2.0, 0.1),
    "coordinate_transformation": ("asymmetric", "half_pixel", "align_corners"),
    "exclusive": (False, True),
    "keep_dims": (False, True),
    "keep_num_dims": (False, True),
    "mode": ("REFLECT", "SYMMETRIC"),
    "narrow_range": (False, True),
    "num_bits": (8, 2, 16, 12),
    "reverse": (False, True),
}


def drawn_attrs(draw: Draw, record: OpDef, **given: object) -> object:
    """Attributes of a record: those given, and drawn ones where `CHOICES` has the name."""
    names = [field.name for field in fields(record.attrs)]
    chosen = {name: draw.pick(CHOICES[name]) for name in names if name in CHOICES}
    attrs: object = replace(record.attrs(), **(chosen | given))
    return attrs


def output_quant(
    draw: Draw, record: OpDef, dtype: DType, like: Quantization | None, scale: float = 0.0
) -> Quantization | None:
    """Quantisation of an output as its record binds it; else drawn, near a scale where given."""
    if dtype not in QUANTISED:
        return None
    for bound, fixed, zero in record.quant.fixed:
        if bound is dtype:
            return Quantization.per_tensor(fixed, zero)
    if record.quant.same_as_input and like is not None:
        return like
    return draw.quant(dtype, scale)


def result(
    draw: Draw, record: OpDef, form: Form, source: Operand | None = None, scale: float = 0.0
) -> list[Result]:
    """The one output of a form, like its source where the record says so."""
    like = None if source is None else source.quant
    return [(form.output, output_quant(draw, record, form.output, like, scale))]


def one_operand(low: int = 0, high: int = 5, **given: object) -> Recipe:
    """Recipe of kinds of one operand of any sizes."""

    def make(draw: Draw, record: OpDef, form: Form) -> Parts:
        source = draw.data(form.input(0), draw.shape(low, high))
        attrs = drawn_attrs(draw, record, **given)
        return Parts([source], attrs, result(draw, record, form, source))

    return make
