"""Recipes of ONNX operators with weights, windows, statistics, or scales."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType
from tests.generated.draw import Sizes
from tests.generated.nodes.case import NodeDraw, NodeParts, NodeRecipe

F32 = DType.FLOAT32


def _finite(d: NodeDraw) -> None:
    """Sums of what is not finite depend on their order; other float types on their width."""
    d.draw.style = "plain"
    if d.dtype.is_float:
        d.dtype = F32


def matmul(d: NodeDraw) -> NodeParts:
    """Stacks of matrices that broadcast, or vectors."""
    _finite(d)
    stacks, (rows, depth, columns) = d.draw.shape(0, 2), (d.draw.integer(1, 7) for _ in range(3))
    left = d.array((*d.draw.spread(stacks), rows, depth))
    right = d.array((*d.draw.spread(stacks), depth, columns))
    if d.schema.name == "MatMulInteger":
        right = d.array(right.shape, d.draw.pick(d.allowed(1)))
        return NodeParts([left, right], {}, frozenset({1}))
    return NodeParts([left, right], {}, frozenset({1}) if d.draw.chance(0.4) else frozenset())


def gemm(d: NodeDraw) -> NodeParts:
    """Two matrices, either of them transposed, and what is added."""
    _finite(d)
    rows, depth, columns = (d.draw.integer(1, 7) for _ in range(3))
    attrs = {"transA": d.draw.integer(0, 1), "transB": d.draw.integer(0, 1)}
    left = d.array((depth, rows) if attrs["transA"] else (rows, depth))
    right = d.array((columns, depth) if attrs["transB"] else (depth, columns))
    inputs = [left, right]
    if d.draw.chance(0.7):
        inputs.append(d.array(d.draw.pick(((columns,), (1,), (rows, 1), (rows, columns)))))
    more = {"alpha": 0.5, "beta": 2.0} if d.draw.chance(0.4) and d.dtype.is_float else {}
    return NodeParts(
        inputs, {**attrs, **more}, frozenset({1}) if d.draw.chance(0.5) else frozenset()
    )


def convolved(d: NodeDraw) -> NodeParts:
    """Images of one to three axes, with pads, strides, dilations and groups."""
    _finite(d)
    rank, groups = d.draw.pick((1, 2, 2, 2, 3)), d.draw.pick((1, 1, 2))
    depth, filters = d.draw.integer(1, 3), d.draw.integer(1, 3)
    window = tuple(d.draw.integer(1, 3) for _ in range(rank))
    sizes = tuple(d.draw.integer(5, 7) for _ in range(rank))
    attrs: dict[str, object] = {
        "group": groups,
        "strides": [d.draw.integer(1, 2) for _ in range(rank)],
        "pads": [d.draw.integer(0, 1) for _ in range(2 * rank)],
    }
    source = d.array((d.draw.integer(1, 2), depth * groups, *sizes))
    if d.schema.name == "ConvTranspose":
        weights = d.array((depth * groups, filters, *window))
    else:
        attrs["dilations"] = [d.draw.pick((1, 1, 2)) for _ in range(rank)]
        weights = d.array((filters * groups, depth, *window))
    if d.schema.name == "ConvInteger":
        weights = d.array(weights.shape, d.draw.pick(d.allowed(1)))
        return NodeParts([source, weights], attrs, frozenset({1}))
    bias = [d.array((filters * groups,))] if d.draw.chance(0.6) else []
    return NodeParts([source, weights, *bias], attrs, frozenset({1, 2}))


def pooled(d: NodeDraw) -> NodeParts:
    """Windows of images."""
    _finite(d)
    rank = d.draw.pick((1, 2, 2, 3))
    attrs: dict[str, object] = {
        "kernel_shape": [d.draw.integer(2, 3) for _ in range(rank)],
        "strides": [d.draw.integer(1, 2) for _ in range(rank)],
        "pads": [d.draw.integer(0, 1) for _ in range(2 * rank)],
    }
    if d.schema.name == "AveragePool":
        attrs["count_include_pad"] = d.draw.integer(0, 1)
    shape = (
        d.draw.integer(1, 2),
        d.draw.integer(1, 3),
        *(d.draw.integer(4, 7) for _ in range(rank)),
    )
    return NodeParts([d.array(shape)], attrs)


def pooled_whole(d: NodeDraw) -> NodeParts:
    """Images as a whole."""
    _finite(d)
    shape = (d.draw.integer(1, 2), d.draw.integer(1, 3), *(d.draw.integer(1, 6) for _ in range(2)))
    return NodeParts([d.array(shape)])


def normalised(d: NodeDraw) -> NodeParts:
    """Images, with a scale and a shift of each channel and, where wanted, its statistics."""
    _finite(d)
    channels = d.draw.integer(1, 4)
    source = d.array((d.draw.integer(1, 2), channels, *(d.draw.integer(2, 5) for _ in range(2))))
    vectors = [d.array((channels,)) for _ in range(2)]
    if d.schema.name == "BatchNormalization":
        vectors += [d.array((channels,)), np.abs(d.array((channels,))) + np.float32(0.5)]
    return NodeParts([source, *vectors], {}, frozenset(range(1, len(vectors) + 1)))


def normalised_rows(d: NodeDraw) -> NodeParts:
    """What lies from an axis on, with a scale and a shift of the last axes."""
    _finite(d)
    source = d.array(d.draw.shape(1, 4, empty=0))
    axis = d.draw.integer(-source.ndim, -1)
    count = 1 if d.schema.name == "RMSNormalization" else d.draw.integer(1, 2)
    vectors = [d.array(source.shape[axis:]) for _ in range(count)]
    return NodeParts([source, *vectors], {"axis": axis}, frozenset({1, 2}))


def over_channels(d: NodeDraw) -> NodeParts:
    """Images whose channels are weighed against their neighbours."""
    _finite(d)
    channels = d.draw.integer(1, 4)  # as many images: the judge counts one for the other
    source = d.array((channels, channels, d.draw.integer(1, 4), d.draw.integer(1, 4)))
    return NodeParts([source], {"size": d.draw.pick((1, 3, 5))} if d.schema.name == "LRN" else {})


def slopes(d: NodeDraw) -> NodeParts:
    """Slopes that spread over the operand."""
    source = d.array(d.draw.shape(1, 4))
    return NodeParts([source, d.array(d.draw.spread(source.shape))])


def quantised(d: NodeDraw) -> NodeParts:
    """A scale and a zero point, of the whole or of each index of an axis."""
    _finite(d)
    source = d.array(d.draw.shape(1, 4, empty=0))
    axis = d.draw.integer(0, source.ndim - 1)
    shape = (source.shape[axis],) if d.draw.chance(0.5) else ()
    scale = (d.draw.rng.uniform(0.02, 0.5, shape)).astype(np.float32)
    stored = d.dtype
    if d.schema.name == "QuantizeLinear":
        source = source.astype(np.float32)
        stored = d.draw.pick((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16))
    low = 0 if stored is DType.INT32 else 5
    zero = np.full(shape, low, stored.numpy)
    return NodeParts([source, scale, zero], {"axis": axis}, frozenset({1, 2}))


def quantised_by_range(d: NodeDraw) -> NodeParts:
    """Values whose range decides the scale."""
    _finite(d)
    return NodeParts([d.array(d.draw.shape(1, 3, empty=0))], {}, frozenset(), 3)


def quantised_product(d: NodeDraw) -> NodeParts:
    """Two stored matrices and the scales of both and of the result."""
    d.dtype = d.draw.pick((DType.INT8, DType.UINT8))
    rows, depth, columns = (d.draw.integer(1, 7) for _ in range(3))
    arrays = [d.array((rows, depth)), d.array((depth, columns))]
    scales = [np.float32(value) for value in (0.02, 0.01, 0.05)]
    zero = np.array(3, d.dtype.numpy)
    inputs = [arrays[0], scales[0], zero, arrays[1], scales[1], zero, scales[2], zero]
    return NodeParts([np.asarray(x) for x in inputs], {}, frozenset({1, 2, 3, 4, 5, 6, 7}))


def summed_by_name(d: NodeDraw) -> NodeParts:
    """Sums of products that an equation names."""
    _finite(d)
    i, j, k = (d.draw.integer(1, 5) for _ in range(3))
    rows: tuple[tuple[str, list[Sizes]], ...] = (
        ("ij,jk->ik", [(i, j), (j, k)]),
        ("ij,kj->ik", [(i, j), (k, j)]),
        ("bij,bjk->bik", [(2, i, j), (2, j, k)]),
        ("ij->ji", [(i, j)]),
        ("ij->i", [(i, j)]),
        ("i,j->ij", [(i,), (j,)]),
    )
    equation, shapes = d.draw.pick(rows)
    return NodeParts([d.array(shape) for shape in shapes], {"equation": equation})


def resized(d: NodeDraw) -> NodeParts:
    """Images in other sizes, by the forms that are used most."""
    _finite(d)
    source = d.array((1, d.draw.integer(1, 3), d.draw.integer(2, 6), d.draw.integer(2, 6)))
    sizes = np.array([*source.shape[:2], d.draw.integer(1, 12), d.draw.integer(1, 12)], np.int64)
    mode = d.draw.pick(("nearest", "linear"))
    transform = d.draw.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    attrs = {"mode": mode, "coordinate_transformation_mode": transform}
    return NodeParts([source, None, None, sizes], attrs, frozenset({3}))


LAYERS: dict[str, NodeRecipe] = {
    **dict.fromkeys(("MatMul", "MatMulInteger"), matmul),
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), convolved),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), pooled),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), pooled_whole),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), normalised),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), normalised_rows),
    **dict.fromkeys(("LRN", "MeanVarianceNormalization"), over_channels),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), quantised),
    "DynamicQuantizeLinear": quantised_by_range,
    "Einsum": summed_by_name,
    "Gemm": gemm,
    "PRelu": slopes,
    "QLinearMatMul": quantised_product,
    "Resize": resized,
}
