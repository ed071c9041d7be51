"""Recipes of ONNX operators: element by element, along axes, and movements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.ir import DType
from tests.generated.nodes.case import NodeDraw, NodeParts, NodeRecipe

_ATTRS: Mapping[str, Mapping[str, tuple[object, ...]]] = {
    "BitShift": {"direction": ("LEFT", "RIGHT")},
    "Celu": {"alpha": (1.0, 0.5)},
    "Elu": {"alpha": (1.0, 0.3)},
    "Gelu": {"approximate": ("none", "tanh")},
    "HardSigmoid": {"alpha": (0.2, 0.5)},
    "IsInf": {"detect_negative": (0, 1), "detect_positive": (0, 1)},
    "LeakyRelu": {"alpha": (0.01, 0.5)},
    "Shrink": {"lambd": (0.5, 1.5), "bias": (0.0, 0.25)},
    "Swish": {"alpha": (1.0, 1.5)},
    "ThresholdedRelu": {"alpha": (1.0, 0.5)},
}


def _attrs(d: NodeDraw, **given: object) -> dict[str, object]:
    """Attributes of a kind, some of which are left at their default, and those given."""
    found = {
        name: d.draw.pick(values)
        for name, values in _ATTRS.get(d.schema.name, {}).items()
        if name == "direction" or d.draw.chance(0.7)
    }
    return {**found, **given}


def fixed(d: NodeDraw, *indices: int, share: float = 0.8) -> frozenset[int]:
    """Inputs that are constant in a share of the cases."""
    return frozenset(index for index in indices if d.draw.chance(share))


def longs(values: object) -> np.ndarray:
    """Whole numbers, as ONNX wants axes and sizes."""
    return np.asarray(values, np.int64)


def unary(d: NodeDraw) -> NodeParts:
    """One operand of any sizes."""
    return NodeParts([d.array(d.draw.shape())], _attrs(d))


def binary(d: NodeDraw) -> NodeParts:
    """Operands that broadcast."""
    whole = d.draw.shape(0, 5)
    arrays = [d.array(d.draw.spread(whole)) for _ in range(2)]
    if d.schema.name in ("Div", "Mod") and arrays[1].dtype.kind in "iu":
        arrays[1] = np.where(arrays[1] == 0, arrays[1].dtype.type(1), arrays[1])
    if d.schema.name == "BitShift":
        arrays[1] = arrays[1] % arrays[1].dtype.type(d.dtype.bits)
    attrs = _attrs(d)
    if d.schema.name == "Mod" and d.dtype.is_float:
        attrs["fmod"] = 1
    return NodeParts(arrays, attrs, fixed(d, 1, share=0.2))


def variadic(d: NodeDraw) -> NodeParts:
    """Any number of operands that broadcast."""
    whole = d.draw.shape(0, 4)
    return NodeParts([d.array(d.draw.spread(whole)) for _ in range(d.draw.integer(1, 4))])


def chosen(d: NodeDraw) -> NodeParts:
    """A condition and two values that broadcast."""
    whole, kind = d.draw.shape(0, 4), d.draw.pick(d.allowed(1))
    values = [d.array(d.draw.spread(whole), kind) for _ in range(2)]
    return NodeParts([d.array(d.draw.spread(whole), DType.BOOL), *values])


def clipped(d: NodeDraw) -> NodeParts:
    """Bounds, either of which may be missing."""
    ends = [np.asarray(value).astype(d.dtype.numpy) for value in (0, 3)]
    bounds = [end if d.draw.chance(0.7) else None for end in ends]
    while bounds and bounds[-1] is None:
        bounds.pop()
    return NodeParts([d.array(d.draw.shape()), *bounds], {}, fixed(d, 1, 2))


def reduced(d: NodeDraw) -> NodeParts:
    """Any axes; none given means all, or none where the attribute says so."""
    source = d.array(d.draw.shape(0, 4, empty=0.02))
    rank = source.ndim
    attrs: dict[str, object] = {"keepdims": d.draw.integer(0, 1)}
    if d.draw.chance(0.2):
        return NodeParts([source], attrs)
    axes = [int(axis) for axis in d.draw.rng.permutation(rank)[: d.draw.integer(0, rank)]]
    axes = [axis - rank * d.draw.chance(0.4) for axis in axes]
    attrs["noop_with_empty_axes"] = d.draw.integer(0, 1)
    return NodeParts([source, longs(axes)], attrs, fixed(d, 1))


def arg(d: NodeDraw) -> NodeParts:
    """One axis, and the first or the last of equal elements."""
    source = d.array(d.draw.shape(1, 4, empty=0))
    attrs = {
        "axis": d.draw.integer(-source.ndim, source.ndim - 1),
        "keepdims": d.draw.integer(0, 1),
        "select_last_index": d.draw.integer(0, 1),
    }
    return NodeParts([source], attrs)


def along(d: NodeDraw) -> NodeParts:
    """One operand and an axis of it."""
    source = d.array(d.draw.shape(1, 4))
    attrs = {"axis": d.draw.integer(-source.ndim, source.ndim - 1)}
    if d.schema.name == "LpNormalization":
        attrs["p"] = d.draw.integer(1, 2)
    return NodeParts([source], attrs)


def flattened(d: NodeDraw) -> NodeParts:
    """All axes before one and all from it on."""
    source = d.array(d.draw.shape(0, 4))
    return NodeParts([source], {"axis": d.draw.integer(-source.ndim, source.ndim)})


def cumulated(d: NodeDraw) -> NodeParts:
    """Sums or products along an axis."""
    source = d.array(d.draw.shape(1, 4))
    axis = longs(d.draw.integer(-source.ndim, source.ndim - 1))
    attrs = {"exclusive": d.draw.integer(0, 1), "reverse": d.draw.integer(0, 1)}
    return NodeParts([source, axis], attrs, fixed(d, 1))


def cast(d: NodeDraw) -> NodeParts:
    """A type that the values have room in."""
    from onnx import helper

    wanted = d.draw.pick(d.allowed(0))
    source = _tame(d, d.array(d.draw.shape()))
    return NodeParts([source], {"to": helper.np_dtype_to_tensor_dtype(wanted.numpy)})


def cast_like(d: NodeDraw) -> NodeParts:
    """The type of another operand."""
    other = d.array((1,), d.draw.pick(d.allowed(1)))
    return NodeParts([_tame(d, d.array(d.draw.shape())), other])


def _tame(d: NodeDraw, source: np.ndarray) -> np.ndarray:
    """Values that every type holds: what others become is not defined by the standard."""
    if source.dtype.kind == "b":
        return source
    limited = np.nan_to_num(source.astype(np.float64), posinf=9, neginf=0)
    return np.clip(limited, 0, 99).astype(source.dtype)


def transposed(d: NodeDraw) -> NodeParts:
    """Any order of axes, or the reverse."""
    source = d.array(d.draw.shape(0, 5))
    order = [int(axis) for axis in d.draw.rng.permutation(source.ndim)]
    return NodeParts([source], {"perm": order} if d.draw.chance(0.8) and order else {})


def reshaped(d: NodeDraw) -> NodeParts:
    """The same elements in other sizes, one of which may be left to be found."""
    source = d.array(d.draw.shape(1, 4, empty=0))
    first = d.draw.pick([n for n in range(1, source.size + 1) if source.size % n == 0])
    sizes = [first, d.draw.pick((-1, source.size // first)), *[1] * d.draw.integer(0, 2)]
    return NodeParts([source, longs(sizes)], {}, fixed(d, 1))


def squeezed(d: NodeDraw) -> NodeParts:
    """Axes of size 1, all of them or those named."""
    shape = tuple(1 if d.draw.chance(0.5) else size for size in d.draw.shape(1, 5))
    ones = [axis for axis, size in enumerate(shape) if size == 1 and d.draw.chance(0.7)]
    source = d.array(shape)
    if not ones:
        return NodeParts([source])
    axes = longs([axis - len(shape) * d.draw.chance(0.4) for axis in ones])
    return NodeParts([source, axes], {}, fixed(d, 1))


def unsqueezed(d: NodeDraw) -> NodeParts:
    """New axes, in any order."""
    source, more = d.array(d.draw.shape(0, 3)), d.draw.integer(1, 3)
    rank = source.ndim + more
    axes = [int(axis) for axis in d.draw.rng.permutation(rank)[:more]]
    return NodeParts(
        [source, longs([a - rank * d.draw.chance(0.4) for a in axes])], {}, fixed(d, 1)
    )


def sliced(d: NodeDraw) -> NodeParts:
    """Ranges along some axes, with steps of either sign and ends beyond them."""
    source = d.array(d.draw.shape(1, 4))
    count = d.draw.integer(1, source.ndim)
    axes = [int(axis) for axis in d.draw.rng.permutation(source.ndim)[:count]]
    starts, ends = ([d.draw.integer(-9, 9) for _ in axes] for _ in range(2))
    steps = [d.draw.pick((1, 1, 2, -1, -3)) for _ in axes]
    ends = [
        d.draw.pick((end, 2**31 - 1 if step > 0 else -(2**31)))
        for end, step in zip(ends, steps, strict=True)
    ]
    lists = [longs(values) for values in (starts, ends, axes, steps)]
    return NodeParts(
        [source, *lists], {}, frozenset(range(1, 5)) if d.draw.chance(0.8) else frozenset()
    )


def split(d: NodeDraw) -> NodeParts:
    """Parts of given sizes along an axis."""
    shape = list(d.draw.shape(1, 4))
    axis, sizes = (
        d.draw.integer(-len(shape), len(shape) - 1),
        [d.draw.integer(0, 4) for _ in range(d.draw.integer(1, 4))],
    )
    shape[axis] = sum(sizes)
    return NodeParts(
        [d.array(tuple(shape)), longs(sizes)], {"axis": axis}, frozenset({1}), len(sizes)
    )


def concatenated(d: NodeDraw) -> NodeParts:
    """Parts that differ along one axis."""
    shape = d.draw.shape(1, 4)
    axis, parts = d.draw.integer(-len(shape), len(shape) - 1), []
    for _ in range(d.draw.integer(1, 4)):
        sizes = list(shape)
        sizes[axis] = d.draw.integer(0, 4)
        parts.append(d.array(tuple(sizes)))
    return NodeParts(parts, {"axis": axis})


def tiled(d: NodeDraw) -> NodeParts:
    """How often along each axis."""
    source = d.array(d.draw.shape(1, 4))
    return NodeParts([source, longs([d.draw.integer(0, 3) for _ in source.shape])], {}, fixed(d, 1))


def expanded(d: NodeDraw) -> NodeParts:
    """Sizes that go together with the operand's, either way."""
    whole = d.draw.shape(0, 5)
    return NodeParts([d.array(d.draw.spread(whole)), longs(d.draw.spread(whole))], {}, fixed(d, 1))


def padded(d: NodeDraw) -> NodeParts:
    """Amounts around each axis, by a constant or by what lies there."""
    mode = d.draw.pick(("constant", "constant", "reflect", "edge", "wrap"))
    source = d.array(d.draw.shape(1, 4, empty=0))
    most = [3 if mode in ("constant", "edge") else size - 1 for size in source.shape]
    amounts = [min(d.draw.integer(0, 3), top) for top in most * 2]
    inputs: list[np.ndarray | None] = [source, longs(amounts)]
    if mode == "constant" and d.draw.chance(0.6):
        inputs.append(d.array(()))
    return NodeParts(inputs, {"mode": mode}, fixed(d, 1, 2))


def filled(d: NodeDraw) -> NodeParts:
    """A constant of given sizes."""
    from onnx import numpy_helper

    value = d.array((1,), d.draw.pick((DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL)))
    attrs = {"value": numpy_helper.from_array(value)} if d.draw.chance(0.7) else {}
    return NodeParts([longs(d.draw.shape(0, 4))], attrs, fixed(d, 0))


def ranged(d: NodeDraw) -> NodeParts:
    """A start, an end and a step of either sign."""
    start, end = d.draw.integer(-9, 9), d.draw.integer(-9, 9)
    step = d.draw.pick((1, 2, 3)) * (1 if end >= start else -1)
    numbers = [np.array(n, d.dtype.numpy) for n in (start, end, step)]
    return NodeParts(numbers, {}, frozenset(range(3)) if d.draw.chance(0.7) else frozenset())


def square(d: NodeDraw) -> NodeParts:
    """Matrices; for a determinant with as many rows as columns."""
    d.draw.style = "plain"
    size = d.draw.integer(1, 4)
    shape = (*d.draw.shape(0, 2, empty=0), size, size if d.schema.name == "Det" else d.draw.size())
    if d.schema.name == "EyeLike":
        return NodeParts([d.array(shape[-2:])], {"k": d.draw.integer(-2, 2)})
    if d.schema.name == "Det":
        return NodeParts([d.array(shape)])
    return NodeParts(
        [d.array(shape), longs(d.draw.integer(-2, 2))],
        {"upper": d.draw.integer(0, 1)},
        fixed(d, 1),
    )


def blocked(d: NodeDraw) -> NodeParts:
    """Images and blocks."""
    block, (batch, depth, rows, columns) = (
        d.draw.integer(1, 3),
        (d.draw.integer(1, 3) for _ in range(4)),
    )
    if d.schema.name == "SpaceToDepth":
        return NodeParts(
            [d.array((batch, depth, rows * block, columns * block))], {"blocksize": block}
        )
    source = d.array((batch, depth * block * block, rows, columns))
    return NodeParts([source], {"blocksize": block, "mode": d.draw.pick(("DCR", "CRD"))})


_UNARY = """
Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu
HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg NonZero Not Reciprocal Relu Round
Selu Shape Shrink Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
Dropout"""
_BINARY = """Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less
LessOrEqual Mod Mul Or Pow Sub Xor"""
_REDUCE = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"

PLAIN: dict[str, NodeRecipe] = {
    **dict.fromkeys(_UNARY.split(), unary),
    **dict.fromkeys(_BINARY.split(), binary),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), variadic),
    **{f"Reduce{name}": reduced for name in _REDUCE.split()},
    **dict.fromkeys(("ArgMax", "ArgMin"), arg),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "LpNormalization", "Softmax"), along),
    **dict.fromkeys(("CumProd", "CumSum"), cumulated),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), blocked),
    **dict.fromkeys(("Det", "EyeLike", "Trilu"), square),
    "Cast": cast,
    "CastLike": cast_like,
    "Clip": clipped,
    "Concat": concatenated,
    "ConstantOfShape": filled,
    "Expand": expanded,
    "Flatten": flattened,
    "Pad": padded,
    "Range": ranged,
    "Reshape": reshaped,
    "Slice": sliced,
    "Split": split,
    "Squeeze": squeezed,
    "Tile": tiled,
    "Transpose": transposed,
    "Unsqueeze": unsqueezed,
    "Where": chosen,
}
