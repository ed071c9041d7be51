"""Sizes of the results of ONNX operators that compute: products, windows, attention, searches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.elementwise import broadcast_shape
from circlet.ops.onnx.integer_sums import check_zero_points
from circlet.ops.onnx.record import OnnxAttrs, axis_of
from circlet.ops.operands import known_ints, listed_count, listed_sizes, operand


def open_sizes(rank: int) -> Shape:
    """So many sizes that are not known."""
    return (None,) * rank


def listed(op: Op, index: int) -> Sequence[Shape] | None:
    """One output of the sizes that operand `index` lists."""
    sizes = listed_sizes(op, index)
    return None if sizes is None else [sizes]


def one_hot(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """Indices with an axis for the depth."""
    depth, axis = operand(op, 1).data, axis_of(attrs.get("axis", -1), len(x) + 1)
    count = None if depth is None else int(depth.reshape(-1)[0])
    return [(*x[:axis], count, *x[axis:])]


def top_k(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """An axis reduced to so many elements."""
    axis = axis_of(attrs.get("axis", -1), len(x))
    known = (attrs.get("k"),) if op.input(1) is None else known_ints(op.input(1))
    made = (*x[:axis], None if known is None else known[0], *x[axis + 1 :])
    return [made, made]


def frames(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """Frames of a signal, the bins of each, and pairs."""
    return [(x[0], None, None, 2)]


def transform(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """Bins for elements along some axis; pairs, or numbers where half of them went back."""
    is_real = attrs.get("inverse", 0) and attrs.get("onesided", 0)
    return [(*open_sizes(len(x) - 1), 1 if is_real else 2)]


def arg(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """An axis reduced to the place of an element."""
    axis = axis_of(attrs.get("axis", 0), len(x))
    kept = (1,) if attrs.get("keepdims", 1) else ()
    return [(*x[:axis], *kept, *x[axis + 1 :])]


def col_to_im(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    """The image that operand 1 says."""
    image, block = known_ints(op.input(1)), known_ints(op.input(2))
    if image is None or block is None:
        return None
    channels = None if x[1] is None else x[1] // prod(block)
    return [(x[0], channels, *image)]


def mat_mul(op: Op, attrs: OnnxAttrs, x: Shape, right: int = 1) -> Sequence[Shape]:
    """A matrix product; operand `right` is the second one."""
    y = operand(op, right).shape
    lead = broadcast_shape(x[:-2], y[:-2])
    depths = {x[-1], y[-2:][0]} - {None}
    if lead is None or len(depths) > 1:
        raise GraphError(f"{x} and {y} do not fit together", where=op.name)
    rows = x[-2:-1]
    return [(*lead, *rows, *(y[-1:] if len(y) > 1 else ()))]


def mat_mul_integer(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """A matrix product of operands with zero points."""
    for index in (0, 1):
        matrix, zeros = operand(op, index), op.input(index + 2)
        if zeros is None or None in (*matrix.shape, *zeros.shape):
            continue
        sizes = matrix.static_shape, zeros.static_shape
        check_zero_points(*sizes, left=index == 0, where=op.name)
    return mat_mul(op, attrs, x)


def gemm(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """A product of two matrices, turned or not."""
    y = operand(op, 1).shape
    rows, depth = x[::-1] if attrs.get("transA", 0) else x
    columns, other = y if attrs.get("transB", 0) else y[::-1]
    if len({depth, other} - {None}) > 1:
        raise GraphError(f"{x} and {y} do not fit together", where=op.name)
    return [(rows, columns)]


def over_pixels(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """One value for each channel."""
    return [(*x[:2], *(1 for _ in x[2:]))]


def grid_sample(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """The places of operand 1, of each channel."""
    return [(*x[:2], *operand(op, 1).shape[1:-1])]


def roi_align(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """The bins of each region."""
    boxes, images = operand(op, 1).shape[0], operand(op, 2).shape[:1]
    if images and None not in (boxes, *images) and images != (boxes,):
        raise ValueError(f"{boxes} regions, of the images of {images[0]}")
    bins = attrs.get("output_height", 1), attrs.get("output_width", 1)
    return [(boxes, x[1], *bins)]


def einsum(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    """By the letters of the equation, where it is explicit."""
    terms, arrow, result = str(attrs.get("equation")).replace(" ", "").partition("->")
    if not arrow or "." in terms + result:
        return None
    sizes: dict[str, int | None] = {}
    for term, tensor in zip(terms.split(","), op.inputs, strict=True):
        shape = () if tensor is None else tensor.shape
        for letter, size in zip(term, shape, strict=True):
            known = sizes.get(letter)
            sizes[letter] = size if known in (None, 1) else known
    return [tuple(sizes[letter] for letter in result)]


def affine_grid(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    """The places of an image of the sizes of operand 1."""
    size, count = known_ints(op.input(1)), listed_count(op, 1)
    if size is None:
        return None if count is None else [(x[0], *open_sizes(count - 2), count - 2)]
    return [(size[0], *size[2:], len(size) - 2)]


def window(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """As long as operand 0 says."""
    known = known_ints(op.input(0))
    return [(None if known is None else known[0],)]


def deformed(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """As large as its offsets."""
    return [(x[0], operand(op, 1).shape[0], *operand(op, 2).shape[2:])]


def max_roi_pool(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """The bins of each region."""
    return [(operand(op, 1).shape[0], x[1], *attrs.get("pooled_shape"))]


def unpooled(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape] | None:
    """An image as it was before it was pooled."""
    if op.input(2) is not None:
        return listed(op, 2)
    taps = attrs.get("kernel_shape")
    rank = len(taps)
    strides, pads = attrs.get("strides") or (1,) * rank, attrs.get("pads") or (0,) * (2 * rank)
    sizes = [
        None if n is None else (n - 1) * strides[i] + taps[i] - pads[i] - pads[i + rank]
        for i, n in enumerate(x[2:])
    ]
    return [(*x[:2], *sizes)]


def attention(op: Op, attrs: OnnxAttrs, x: Shape) -> Sequence[Shape]:
    """The result, keys and values with those of before, and scores."""
    keys, values = operand(op, 1).shape, operand(op, 2).shape
    if len(x) == 3:
        counts = attrs.get("q_num_heads"), attrs.get("kv_num_heads")
        x, keys, values = (
            (s[0], count, s[1], None if s[2] is None else s[2] // count)
            for s, count in zip((x, keys, values), (*counts, counts[1]), strict=True)
        )
    past = op.input(4)
    before = 0 if past is None else past.shape[2]
    total = None if before is None or keys[2] is None else before + keys[2]
    made: Shape = (*x[:3], values[3])
    if len(operand(op, 0).shape) == 3:
        made = (x[0], x[2], None if values[3] is None else values[3] * (x[1] or 0))
    kept = [(*part[:2], total, part[3]) for part in (keys, values)]
    return [made, *kept, (*x[:3], total)]
