"""Recipes of kinds whose operands are positions: gathers, scatters, segments, chosen boxes."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from circlet.ir import DType, Quantization
from circlet.ops import OpDef
from circlet.ops.detection import DetectionAttrs
from tests.generated.case import Form, Parts
from tests.generated.draw import Draw, Operand, Sizes
from tests.generated.recipes.common import Recipe, drawn_attrs, result


def _places(draw: Draw, size: int, shape: Sizes, dtype: DType, strays: float = 0.03) -> Operand:
    """Positions along an axis, once in a while one that lies outside."""
    wide = draw.chance(strays)
    values = draw.rng.integers(-1 if wide else 0, max(size, 1) + wide, shape)
    return Operand(values.astype(dtype.numpy), None, draw.chance(0.3))


def gathered(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Rows along an axis, for each batch where there are batch dimensions."""
    source = draw.data(form.any, draw.shape(1, 4, empty=0.02))
    shape = source.array.shape
    axis = draw.axis(len(shape))
    batches = draw.pick((0, 0, 0, draw.integer(0, max(0, min(axis, len(shape) - 1)))))
    places = _places(
        draw, shape[axis] if -len(shape) <= axis < len(shape) else 1,
        (*shape[:batches], *draw.shape(0, 2)), form.input(1),
    )  # fmt: skip
    attrs = drawn_attrs(draw, record, axis=axis, batch_dims=batches)
    return Parts([source, places], attrs, result(draw, record, form, source))


def _points(draw: Draw, shape: Sizes, depth: int, dtype: DType) -> Operand:
    """Lists of positions along the first axes."""
    count = draw.shape(1, 2)
    columns = [_places(draw, size, count, dtype, 0.01).array for size in shape[:depth]]
    values = np.stack(columns, -1) if columns else np.zeros((*count, 0))
    return Operand(values.astype(dtype.numpy), None, draw.chance(0.3))


def gathered_points(draw: Draw, record: OpDef, form: Form) -> Parts:
    """What lies at lists of positions."""
    source = draw.data(form.any, draw.shape(1, 4, empty=0.02))
    depth = draw.integer(1, source.array.ndim)
    points = _points(draw, source.array.shape, depth, form.input(1))
    return Parts([source, points], None, result(draw, record, form, source))


def scattered(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Values that are added at lists of positions, some of which repeat."""
    shape = draw.shape(1, 4, empty=0)
    depth = draw.integer(1, len(shape))
    points = _points(draw, shape, depth, form.input(0))
    values = draw.data(form.input(1), (*points.array.shape[:-1], *shape[depth:]))
    operands = [points, values, draw.ints(shape)]
    return Parts(operands, None, result(draw, record, form, values))


def dense(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Values at rising positions of a dense tensor."""
    shape = draw.shape(1, 4, empty=0)
    count = draw.integer(1, min(6, int(np.prod(shape))))
    flat = np.sort(draw.rng.choice(int(np.prod(shape)), count, replace=False))
    places = np.stack(np.unravel_index(flat, shape), -1)
    quant = draw.quant(form.input(2))
    values = draw.data(form.input(2), (count,), quant)
    default = Operand(draw.values(form.input(3), ()), quant, draw.chance(0.7))
    sizes = [draw.ints(places, form.input(0), 0.3), draw.ints(shape, form.input(1))]
    return Parts([*sizes, values, default], drawn_attrs(draw, record), [(form.output, quant)])


def looked_up(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Rows of a table."""
    table = draw.data(form.input(1), draw.shape(2, 4, empty=0), constant=1)
    places = _places(draw, table.array.shape[0], (draw.integer(0, 5),), DType.INT32, 0.02)
    if table.quant is not None:
        table = Operand(table.array, Quantization.per_tensor(0.03, 0), True)
    quant = table.quant if form.output is form.input(1) else None
    return Parts([places, table], None, [(form.output, quant)])


def segments(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Rows that belong to rising segments."""
    source = draw.data(form.input(0), draw.shape(1, 3, empty=0))
    ids = np.sort(draw.rng.integers(0, 4, source.array.shape[0]))
    return Parts([source, draw.ints(ids, constant=0.6)], None, result(draw, record, form))


def unsorted_segments(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Rows that belong to segments in any order, some to none."""
    source, count = draw.data(form.input(0), draw.shape(1, 3, empty=0)), draw.integer(1, 5)
    shape = source.array.shape[: draw.integer(1, source.array.ndim)]
    ids = draw.rng.integers(-1 if draw.chance(0.3) else 0, count, shape)
    operands = [source, draw.ints(ids, constant=0.5), draw.ints(count)]
    return Parts(operands, None, result(draw, record, form))


def suppressed(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Boxes that overlap, and thresholds."""
    count = draw.integer(0, 12)
    corners = draw.rng.random((count, 2)) * 3
    boxes = np.concatenate([corners, corners + draw.rng.random((count, 2)) + 0.1], 1)
    scores = draw.rng.random(count)
    numbers: list[object] = [draw.integer(0, 8), draw.pick((0.2, 0.5)), draw.pick((0.0, 0.3))]
    numbers += [draw.pick((0.0, 0.5))] * (len(form.inputs) - 5)
    operands = [Operand(array.astype(np.float32)) for array in (boxes, scores)]
    types = [DType.INT32, *[DType.FLOAT32] * (len(numbers) - 1)]
    pairs = zip(numbers, types, strict=True)
    operands += [Operand(np.array(n, t.numpy), None, draw.chance(0.8)) for n, t in pairs]
    found = [(DType.INT32, None), (DType.FLOAT32, None), (DType.INT32, None)]
    return Parts(operands, None, found if len(form.inputs) == 6 else [found[0], found[2]])


def detected(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Encoded boxes, scores of classes, and anchors."""
    draw.style = "plain"
    boxes, classes = draw.integer(2, 9), draw.integer(1, 3)
    is_regular = draw.chance(0.5)
    each = 1 if is_regular else draw.integer(1, classes)
    attrs = DetectionAttrs(
        draw.integer(1, 5), each, 5, is_regular, draw.pick((0.1, 0.4)), 0.5,
        classes, 10.0, 10.0, 5.0, 5.0,
    )  # fmt: skip
    count = boxes * (classes + 1)  # scores of their own: the order of equal ones is not defined
    scores = draw.rng.permutation(count).reshape(1, boxes, classes + 1) / count
    arrays = (draw.rng.standard_normal((1, boxes, 4)), scores, draw.rng.random((boxes, 4)) + 0.2)
    steps = ((0.03, 100), (1 / 256, 0), (0.01, 0))
    pairs = zip(arrays, steps, strict=True)
    operands = [_stored(array, form.input(0), *step) for array, step in pairs]
    constant = Operand(operands[2].array, operands[2].quant, True)
    options = bytes(import_module("flatbuffers.flexbuffers").Dumps(vars(attrs)))
    return Parts([*operands[:2], constant], attrs, [(DType.FLOAT32, None)] * 4, options)


def _stored(array: np.ndarray, dtype: DType, scale: float, zero: int) -> Operand:
    if dtype is DType.FLOAT32:
        return Operand(array.astype(np.float32))
    stored = np.clip(np.round(array / scale) + zero, 0, 255).astype(np.uint8)
    return Operand(stored, Quantization.per_tensor(scale, zero))


_UNSORTED = ("MAX", "MIN", "PROD", "SUM")

INDEXING: dict[str, Recipe] = {
    "CUSTOM:TFLite_Detection_PostProcess": detected,
    "EMBEDDING_LOOKUP": looked_up,
    "GATHER": gathered,
    "GATHER_ND": gathered_points,
    "NON_MAX_SUPPRESSION_V4": suppressed,
    "NON_MAX_SUPPRESSION_V5": suppressed,
    "SCATTER_ND": scattered,
    "SEGMENT_SUM": segments,
    "SPARSE_TO_DENSE": dense,
    **{f"UNSORTED_SEGMENT_{name}": unsorted_segments for name in _UNSORTED},
}
