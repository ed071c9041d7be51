"""Sizes of the results of ONNX operators, as far as they follow from sizes and constants.

Each function gives the shapes of an op's outputs; what depends on the data of a run is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.onnx import sizes_of_products as others
from circlet.ops.onnx.record import Infer, OnnxAttrs, attributes, axis_of, stated
from circlet.ops.onnx.sizes_of_products import listed, open_sizes
from circlet.ops.opdef import TensorType
from circlet.ops.operands import known_ints, listed_count, operand, ranked

Sizes = Callable[[Op, OnnxAttrs, Shape], Sequence[Shape] | None]


def inferred(sizes: Sizes) -> Infer:
    """Inference by sizes of an op, its attributes and the shape of input 0.

    What the importer stated holds where a rank is open, or where `sizes` gives None.
    """

    def infer(op: Op) -> list[TensorType]:
        if not ranked(op):
            return stated(op)
        try:
            made = sizes(op, attributes(op), operand(op, 0).shape)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            what = "operands and attributes do not fit together"
            raise GraphError(what, where=f"{op.name} ({op.label})", why=str(error)) from None
        if made is None:
            return stated(op)
        return [
            TensorType(tensor.dtype, tuple(shape))
            for tensor, shape in zip(op.outputs, made, strict=False)
        ]

    return infer


def _axes(op: Op, attrs: OnnxAttrs, index: int, rank: int) -> list[int] | None:
    """Axes of operand `index` or of the attribute; None where only a run knows them."""
    if op.input(index) is None:
        given = attrs.get("axes")
        return None if given is None else [axis_of(axis, rank) for axis in given]
    known = known_ints(op.input(index))
    return None if known is None else [axis_of(axis, rank) for axis in known]


def _reshape(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    target = known_ints(op.input(1))
    if target is None:
        return listed(op, 1)
    kept = not attrs.get("allowzero", 0)
    if kept and any(size == 0 and place >= len(x) for place, size in enumerate(target)):
        raise GraphError("a size is to be copied that does not exist", where=op.name)
    sizes: list[int | None] = [
        x[i] if size == 0 and kept else size for i, size in enumerate(target)
    ]
    if -1 not in sizes:
        return [tuple(sizes)]
    place, total = sizes.index(-1), _product(x)
    rest = _product([size for i, size in enumerate(sizes) if i != place])
    sizes[place] = total // rest if total is not None and rest else None
    return [tuple(sizes)]


def _product(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None


def _flatten(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    axis = attrs.get("axis", 1)
    axis = axis + len(x) if axis < 0 else axis
    return [(_product(x[:axis]), _product(x[axis:]))]


def _squeeze(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    axes = _axes(op, attrs, 1, len(x))
    if axes is None and (op.input(1) is not None or None in x):
        return None
    axes = [i for i, size in enumerate(x) if size == 1] if axes is None else axes
    return [tuple(size for i, size in enumerate(x) if i not in axes)]


def _unsqueeze(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    known = known_ints(op.input(1)) if op.input(1) is not None else attrs.get("axes")
    if known is None:
        count = listed_count(op, 1) if op.input(1) is not None else None
        return None if count is None else [open_sizes(len(x) + count)]
    rank, own = len(x) + len(known), iter(x)
    axes = {axis_of(axis, rank) for axis in known}
    return [tuple(1 if i in axes else next(own) for i in range(rank))]


def _expand(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    target, count = known_ints(op.input(1)), listed_count(op, 1)
    if target is None:
        return None if count is None else [open_sizes(max(count, len(x)))]
    rank = max(len(target), len(x))
    wide = (1,) * (rank - len(x)) + tuple(x)
    sizes = (1,) * (rank - len(target)) + target
    return [tuple(own if size == 1 else size for own, size in zip(wide, sizes, strict=True))]


def _tile(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    times = known_ints(op.input(1))
    if times is None or len(times) != len(x):
        return [open_sizes(len(x))]
    return [tuple(None if n is None else n * t for n, t in zip(x, times, strict=True))]


def _slice(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    lists = [
        attrs.get(name) if op.input(1) is None else known_ints(op.input(index))
        for index, name in enumerate(("starts", "ends"), 1)
    ]
    axes, steps = _axes(op, attrs, 3, len(x)), known_ints(op.input(4))
    starts, ends = lists
    unknown_axes = axes is None and op.input(3) is not None
    if starts is None or ends is None or unknown_axes or (steps is None and op.input(4)):
        touched = set(range(len(x))) if unknown_axes or axes is None else set(axes)
        return [tuple(None if i in touched else n for i, n in enumerate(x))]
    made = list(x)
    places = range(len(starts)) if axes is None else axes
    ranges = zip(starts, ends, places, steps or (1,) * len(starts), strict=True)
    for first, last, axis, step in ranges:
        size = x[axis]
        if size is not None:
            stop = None if step < 0 and last < -size else last
            size = len(range(*slice(first, stop, step).indices(size)))
        made[axis] = size
    return [tuple(made)]


def _split(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    axis, count = axis_of(attrs.get("axis", 0), len(x)), len(op.outputs)
    given = attrs.get("split") if op.input(1) is None else known_ints(op.input(1))
    size = x[axis]
    if given is None and op.input(1) is None and size is not None:
        each = -(-size // count)
        given = [each] * (count - 1)
        given.append(size - sum(given))
    parts = [None] * count if given is None else given
    return [(*x[:axis], part, *x[axis + 1 :]) for part in parts]


def _pad(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    amounts = attrs.get("pads") if op.input(1) is None else known_ints(op.input(1))
    axes = _axes(op, attrs, 3, len(x))
    if amounts is None or (axes is None and op.input(3) is not None):
        return [open_sizes(len(x))]
    places, made = list(range(len(x))) if axes is None else axes, list(x)
    for i, axis in enumerate(places):
        size = x[axis]
        made[axis] = None if size is None else size + amounts[i] + amounts[i + len(places)]
    return [tuple(made)]


def _transpose(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    order = attrs.get("perm") or tuple(reversed(range(len(x))))
    return [tuple(x[axis] for axis in order)]


def _depth_to_space(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    b = attrs.get("blocksize")
    depth = None if x[1] is None else x[1] // (b * b)
    return [(x[0], depth, *(None if n is None else n * b for n in x[2:]))]


def _space_to_depth(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    b = attrs.get("blocksize")
    depth = None if x[1] is None else x[1] * b * b
    return [(x[0], depth, *(None if n is None else n // b for n in x[2:]))]


def _concat(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    shapes = [tensor.shape for tensor in op.inputs if tensor is not None]
    axis = axis_of(attrs.get("axis", 0), len(x))
    total: int | None = 0
    for shape in shapes:
        total = None if total is None or shape[axis] is None else total + (shape[axis] or 0)
    return [(*x[:axis], total, *x[axis + 1 :])]


def _range(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    ends = [None if t is None or t.data is None else t.data.reshape(-1)[0] for t in op.inputs]
    first, last, step = ends
    if first is None or last is None or step is None or not step:
        return [(None,)]
    return [(max(0, ceil((float(last) - float(first)) / float(step))),)]


def _gather(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    axis = axis_of(attrs.get("axis", 0), len(x))
    return [(*x[:axis], *operand(op, 1).shape, *x[axis + 1 :])]


def _gather_nd(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    places = operand(op, 1).shape
    taken = attrs.get("batch_dims", 0) + (places[-1] or 0)
    return None if places[-1] is None else [(*places[:-1], *x[taken:])]


def _unique(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    axis = attrs.get("axis")
    place = None if axis is None else axis_of(axis, len(x))
    values = (None,) if place is None else (*x[:place], None, *x[place + 1 :])
    whole = _product(x) if place is None else x[place]
    return [values, (None,), (whole,), (None,)]


def _compress(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    axis = attrs.get("axis")
    place = None if axis is None else axis_of(axis, len(x))
    return [(None,) if place is None else (*x[:place], None, *x[place + 1 :])]


def _centred(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    target, made = known_ints(op.input(1)), list(x)
    axes = [axis_of(axis, len(x)) for axis in attrs.get("axes") or range(len(x))]
    for i, axis in enumerate(axes):
        made[axis] = None if target is None else target[i]
    return [tuple(made)]


SIZES: dict[str, Sizes] = {
    "AffineGrid": others.affine_grid,
    "ArgMax": others.arg,
    "ArgMin": others.arg,
    "Attention": others.attention,
    "BlackmanWindow": others.window,
    "CenterCropPad": _centred,
    "Col2Im": others.col_to_im,
    "Compress": _compress,
    "Concat": _concat,
    "ConstantOfShape": lambda op, attrs, x: others.listed(op, 0),
    "DFT": others.transform,
    "DepthToSpace": _depth_to_space,
    "DeformConv": others.deformed,
    "Det": lambda op, attrs, x: [x[:-2]],
    "DynamicQuantizeLinear": lambda op, attrs, x: [x, (), ()],
    "Einsum": others.einsum,
    "Expand": _expand,
    "EyeLike": lambda op, attrs, x: [x],
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": lambda op, attrs, x: [operand(op, 1).shape],
    "GatherND": _gather_nd,
    "Gemm": others.gemm,
    "GlobalAveragePool": others.over_pixels,
    "GlobalLpPool": others.over_pixels,
    "GlobalMaxPool": others.over_pixels,
    "GridSample": others.grid_sample,
    "HammingWindow": others.window,
    "HannWindow": others.window,
    "MatMul": others.mat_mul,
    "MatMulInteger": others.mat_mul_integer,
    "MaxRoiPool": others.max_roi_pool,
    "MaxUnpool": others.unpooled,
    "NonMaxSuppression": lambda op, attrs, x: [(None, 3)],
    "NonZero": lambda op, attrs, x: [(len(x), None)],
    "OneHot": others.one_hot,
    "Pad": _pad,
    "QLinearMatMul": lambda op, attrs, x: others.mat_mul(op, attrs, x, 3),
    "Range": _range,
    "Reshape": _reshape,
    "RoiAlign": others.roi_align,
    "STFT": others.frames,
    "Shape": lambda op, attrs, x: [(len(x[attrs.get("start", 0) : attrs.get("end")]),)],
    "Size": lambda op, attrs, x: [()],
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": others.top_k,
    "Transpose": _transpose,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
}
