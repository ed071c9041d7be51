"""Networks in which the data of a run decides sizes."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.facts import ShapeAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.groups import UniqueAttrs
from circlet.ops.inverse_root import L2NormAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.order import CumsumAttrs, OneHotAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.quantize import CastAttrs
from circlet.ops.reduce import ArgAttrs, ReducerAttrs
from circlet.ops.resize import ResizeAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.softmax import SoftmaxAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs

ROWS = 24


class Net:
    """A network in which rows of a table are chosen by what is positive in a list."""

    def __init__(self) -> None:
        self.b: Builder = builder()
        self.x = self.b.input("x", DType.FLOAT32, (ROWS,))
        self.table = self.b.input("table", DType.FLOAT32, (ROWS, 4))
        zero = self.b.constant("zero", np.float32(0))
        self.flags = self.b.op("GREATER", [self.x, zero], name="flags", dtype=DType.BOOL)
        self.found = self.b.op("WHERE", [self.flags], name="found", dtype=DType.INT64)
        rows = self.b.op("GATHER", [self.table, self.found], GatherAttrs(0), name="rows")
        self.rows = self.reshape(rows, -1, 4)

    def ints(self, *values: int, dtype: type = np.int32) -> Tensor:
        return self.b.constant("ints", np.array(values, dtype))

    def reshape(self, data: Tensor, *sizes: int) -> Tensor:
        return self.b.op("RESHAPE", [data, self.ints(*sizes)], ReshapeAttrs(sizes))

    def shape(self, data: Tensor, dtype: str = "INT32") -> Tensor:
        return self.b.op("SHAPE", [data], ShapeAttrs(dtype), dtype=DType[dtype])

    def sliced_rows(self) -> Tensor:
        """The first column of the rows that are chosen."""
        return self.reshape(self.sliced(self.rows, [0, 0], [1000, 1]), -1)

    def joined(self, axis: int, *parts: Tensor) -> Tensor:
        return self.b.op("CONCATENATION", parts, ConcatenationAttrs(axis))

    def sliced(
        self, data: Tensor, begin: list[int], end: list[int], attrs: StridedSliceAttrs | None = None
    ) -> Tensor:
        ones = self.ints(*[1] * len(begin))
        lists = [self.ints(*begin), self.ints(*end), ones]
        return self.b.op("STRIDED_SLICE", [data, *lists], attrs or StridedSliceAttrs())

    def reduced(self, kind: str, data: Tensor, *axes: int, keep: bool = False) -> Tensor:
        return self.b.op(kind, [data, self.ints(*axes)], ReducerAttrs(keep))

    def least(self, first: Tensor, second: int) -> Tensor:
        return self.b.op("MINIMUM", [first, self.ints(second)])

    def top(self, data: Tensor, count: Tensor) -> list[Tensor]:
        made = [Tensor("best", data.dtype, (None,)), Tensor("places", DType.INT32, (None,))]
        return list(self.b.op_many("TOPK_V2", [data, count], made))

    def suppressed(self, boxes: Tensor, scores: Tensor, *rest: object, **values: int) -> Tensor:
        made = Tensor("kept", DType.INT64, (None, 3))
        operands = [self.b.constant("limit", np.array(value)) for value in rest]
        attrs = OnnxAttrs(tuple(sorted(values.items())), 13)
        code = "onnx.NonMaxSuppression"
        self.b.op_many("CUSTOM", [boxes, scores, *operands], [made], attrs, custom_code=code)
        return made


def places(net: Net) -> list[Tensor]:
    """WHERE over every type and rank, and over what a run sized."""
    b = net.b
    bar = b.constant("a", np.float32(0.3))
    wide = b.op("GREATER", [net.table, bar], dtype=DType.BOOL)
    deep = net.reshape(wide, 2, 3, 4, 4)
    whole = b.op("CAST", [net.table], CastAttrs("FLOAT32", "INT32"), dtype=DType.INT32)
    bytes_ = b.op("CAST", [whole], CastAttrs("INT32", "INT8"), dtype=DType.INT8)
    long = b.op("CAST", [whole], CastAttrs("INT32", "INT64"), dtype=DType.INT64)
    nothing = b.op("MUL", [net.table, b.constant("none", np.float32(-0.0))])
    again = b.op("GREATER", [net.rows, b.constant("b", np.float32(0.1))], dtype=DType.BOOL)
    kinds = (wide, deep, whole, bytes_, long, nothing, net.table, again)
    return [b.op("WHERE", [kind], dtype=DType.INT64) for kind in kinds]


def movements(net: Net) -> list[Tensor]:
    """What moves rows that a run counts."""
    b, rows = net.b, net.rows
    turned = b.op("TRANSPOSE", [rows, net.ints(1, 0)])
    other = b.op("NEG", [rows])
    halves = [Tensor("half", DType.FLOAT32, (None, 2)) for _ in range(2)]
    b.op_many("SPLIT", [net.ints(1), rows], halves, SplitAttrs(2))
    columns = [Tensor("column", DType.FLOAT32, (None,)) for _ in range(4)]
    b.op_many("UNPACK", [rows], columns, UnpackAttrs(4, 1))
    ones = b.op("FILL", [net.shape(rows), b.constant("one", np.float32(1))])
    return [
        turned,
        net.reshape(rows, -1),
        net.reshape(rows, -1, 2, 2),
        b.op("EXPAND_DIMS", [turned, net.ints(0)]),
        net.joined(0, rows, net.table, other),
        net.joined(1, rows, other),
        *halves,
        *columns,
        b.op("PACK", [columns[0], columns[3]], PackAttrs(2, 1)),
        net.sliced(rows, [0, 0], [5, 4]),
        net.sliced(rows, [2, 1], [1000, 3]),
        net.sliced(rows, [0, 0], [-1, 4]),
        net.sliced(rows, [0, 1], [0, 2], StridedSliceAttrs(1, 1, shrink_axis_mask=2)),
        b.op("SLICE", [rows, net.ints(0, 1), net.ints(-1, 2)]),
        ones,
        b.op("BROADCAST_TO", [net.sliced(net.table, [0, 0], [1, 4]), net.shape(rows)]),
        b.op("GATHER_ND", [net.table, net.found]),
        b.op("ZEROS_LIKE", [rows]),
    ]


def compressed(net: Net) -> list[Tensor]:
    """ONNX's Compress along each axis, and over all elements."""
    made = []
    for flags, sizes, axis in (
        (net.flags, (None, 4), (("axis", 0),)),
        (net.sliced(net.flags, [5], [8]), (ROWS, None), (("axis", -1),)),
        (net.flags, (None,), ()),
    ):
        made.append(Tensor("compressed", DType.FLOAT32, sizes))
        attrs, given = OnnxAttrs(axis, 11), [net.table, flags]
        net.b.op_many("CUSTOM", given, made[-1:], attrs, custom_code="onnx.Compress")
    return [*made, net.b.op("NEG", [made[1]])]


def numbers(net: Net) -> list[Tensor]:
    """What computes with rows that a run counts, and with their count."""
    b, rows = net.b, net.rows
    count = b.op("GATHER", [net.shape(rows), net.ints(0)], GatherAttrs(0))
    doubled = b.op("MUL", [rows, b.constant("two", np.float32(2))])
    many = net.joined(0, rows, net.table)
    scores = net.reshape(net.sliced(many, [0, 0], [1000, 1]), -1)
    return [
        b.op("LOGISTIC", [b.op("ADD", [doubled, rows])]),
        b.op("SOFTMAX", [rows]),
        b.op("ADD", [net.found, net.found]),
        net.reduced("SUM", rows, 1),
        net.reduced("REDUCE_MAX", rows, 1, keep=True),
        net.reduced("SUM", rows, 0),
        net.reduced("REDUCE_MAX", many, 0),
        net.reduced("REDUCE_MIN", many, 0, 1),
        net.reduced("REDUCE_MAX", b.op("TRANSPOSE", [many, net.ints(1, 0)]), 1),
        b.op("MUL", [count, net.ints(3)]),
        net.reduced("REDUCE_PROD", net.shape(rows), 0),
        b.op("CAST", [count], CastAttrs("INT32", "FLOAT32"), dtype=DType.FLOAT32),
        *net.top(net.reshape(rows, -1), net.least(count, 5)),
        *net.top(scores, count),
        *net.top(scores, net.ints(7)),
    ]


def detections(net: Net) -> list[Tensor]:
    """ONNX's NonMaxSuppression over boxes that are all there, and over some that a run counts."""
    boxes, scores = net.reshape(net.table, 1, ROWS, 4), net.reshape(net.x, 1, 1, ROWS)
    classes = net.joined(1, scores, net.b.op("NEG", [scores]))
    some = net.reshape(net.rows, 1, -1, 4)
    own = net.b.op("GATHER_ND", [net.x, net.found])
    limits: tuple[object, ...] = (
        np.array([5]),
        np.array([0.2], np.float32),
        np.array([0.05], np.float32),
    )
    kept = net.suppressed(boxes, classes, *limits)
    first = net.reshape(net.sliced(kept, [0, 2], [9, 3]), -1)
    return [
        kept,
        net.suppressed(boxes, classes, *limits[:2], center_point_box=1),
        net.suppressed(boxes, scores, np.array([1 << 62]), *limits[1:]),
        net.suppressed(some, net.reshape(own, 1, 1, -1), *limits[:2]),
        net.b.op("GATHER", [net.table, first], GatherAttrs(0)),
    ]


def scattered(net: Net) -> list[Tensor]:
    """ONNX's scatters of rows into tables of which a run says the length, as levels of a detector
    are brought together, and of places that count from the end."""
    b, rows = net.b, net.rows
    zeros = b.op("ZEROS_LIKE", [rows])
    bar = b.constant("bar", np.float32(0.05))
    level = b.op("GREATER", [net.sliced_rows(), bar], dtype=DType.BOOL)
    found = b.op("WHERE", [level], dtype=DType.INT64)
    part = net.reshape(b.op("GATHER", [rows, found], GatherAttrs(0)), -1, 4)
    wide = b.op("BROADCAST_TO", [found, net.shape(part)])
    count = net.reshape(b.op("GATHER", [net.shape(rows), net.ints(0)], GatherAttrs(0)))
    one, zero = (b.constant("one", np.int32(value)) for value in (1, 0))
    places = b.op("RANGE", [zero, count, one], dtype=DType.INT32)
    behind = net.reshape(b.op("NEG", [b.op("ADD", [places, one])]), -1, 1)
    columns = b.constant("columns", np.array([[1, -1]] * 12, np.int64))
    few = net.sliced(net.found, [0, 0], [2, 1])

    def scatter(kind: str, data: Tensor, at: Tensor, updates: Tensor, **attrs: object) -> Tensor:
        made = Tensor(kind, data.dtype, data.shape)
        options = OnnxAttrs(tuple(sorted(attrs.items())), 16)
        b.op_many("CUSTOM", [data, at, updates], [made], options, custom_code=f"onnx.{kind}")
        return made

    pairs = net.joined(1, found, b.op("SUB", [found, found]))
    return [
        scatter("ScatterElements", zeros, wide, part, axis=0),
        scatter("ScatterElements", rows, wide, part, axis=0, reduction="add"),
        scatter("ScatterND", zeros, behind, rows),
        scatter("ScatterND", net.table, found, part),
        scatter("ScatterND", rows, pairs, net.reshape(net.sliced(part, [0, 1], [1000, 2]), -1)),
        scatter("ScatterElements", net.table, columns, net.reshape(net.x, 12, 2), axis=1),
        scatter("ScatterND", net.table, few, b.op("GATHER_ND", [net.table, few])),
    ]


def distinct(net: Net) -> list[Tensor]:
    """UNIQUE of every type, of lists that are all there and of what a run counts."""
    b, made = net.b, list[Tensor]()
    flat = net.reshape(net.table, -1)
    steps = b.op("ROUND", [b.op("MUL", [flat, b.constant("scale", np.float32(9))])])
    some = b.op("ROUND", [net.reshape(net.rows, -1)])
    broken = b.op("SQRT", [steps])  # of negative numbers it is none
    for number, values in enumerate((steps, some, broken)):
        given = [values]
        for name in ("INT8", "INT32", "INT64") if values is not broken else ():
            cast = CastAttrs("FLOAT32", name)
            given.append(b.op("CAST", [values], cast, dtype=DType[name]))
        for each in given:
            index = "INT64" if number else "INT32"
            pair = [Tensor("values", each.dtype, (None,)), Tensor("at", DType[index], each.shape)]
            b.op_many("UNIQUE", [each], pair, UniqueAttrs(index))
            made += [*pair, b.op("GATHER", pair, GatherAttrs(0))]
    return made


def sorted_distinct(net: Net) -> list[Tensor]:
    """ONNX's Unique of every type: sorted or not, with some of its results or all of them."""
    b, made = net.b, list[Tensor]()
    steps = b.op("ROUND", [b.op("MUL", [net.table, b.constant("scale", np.float32(3))])])
    some = b.op("ROUND", [net.rows])
    broken = b.op("SQRT", [steps])
    signed = b.op("MUL", [steps, b.constant("signed zeros", np.array([0, -0.0, 1, 0], np.float32))])
    given = [steps, some, broken, signed, net.reshape(some, -1)]
    whole = ((steps, "INT8"), (some, "INT32"), (steps, "INT64"), (some, "BOOL"))
    for values, name in (*whole, (b.op("ABS", [steps]), "UINT8"), (some, "INT16")):
        given.append(b.op("CAST", [values], CastAttrs("FLOAT32", name), dtype=DType[name]))
    for number, values in enumerate(given):
        for rising in (0, 1):
            shapes = ((None,), (None,), (None,), (None,))[: 1 + number % 4]
            types = [values.dtype, *[DType.INT64] * 3]
            results = [Tensor("unique", t, s) for t, s in zip(types, shapes, strict=False)]
            attrs = OnnxAttrs((("sorted", rising),), 11)
            b.op_many("CUSTOM", [values], results, attrs, custom_code="onnx.Unique")
            made += results
    return [*made, b.op("NEG", [made[0]])]


def thinned(net: Net) -> list[Tensor]:
    """LiteRT's NON_MAX_SUPPRESSION, of a number of boxes that a run says, and what it found."""
    b, made = net.b, list[Tensor]()
    some = net.sliced_rows()
    few = net.reshape(net.least(b.op("GATHER", [net.shape(net.rows), net.ints(0)]), 6))
    limits = [b.constant("limit", np.float32(value)) for value in (0.3, 0.1, 0.4)]
    for boxes, scores, most in (
        (net.table, net.x, b.constant("most", np.int32(7))),
        (net.table, net.x, few),
        (net.rows, some, few),
        (net.rows, some, b.constant("most", np.int32(ROWS + 3))),
    ):
        for kind in ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"):
            is_soft = kind[-1] == "5"
            rows = (None,) if most is few else (int(np.asarray(most.data)),)
            kept = [Tensor("kept", DType.INT32, rows)]
            kept += [Tensor("scores", DType.FLOAT32, rows)] if is_soft else []
            found = Tensor("found", DType.INT32, ())
            given = [boxes, scores, most, *limits[: 2 + is_soft]]
            b.op_many(kind, given, [*kept, found])
            ends = net.reshape(found, 1)
            made += [*kept, found, b.op("SLICE", [kept[0], net.ints(0), ends])]
            made.append(b.op("GATHER", [boxes, made[-1]]))
            made.append(b.op("STRIDED_SLICE", [kept[-1], net.ints(0), ends, net.ints(1)]))
    return made


def branches(net: Net) -> list[Tensor]:
    """IF whose branches give results of other sizes, of which one has none."""
    count = net.shape(net.found, "INT64")
    few = net.b.op("LESS", [net.reduced("REDUCE_PROD", count, 0), net.ints(4, dtype=np.int64)])
    few = net.reshape(few)
    made = Tensor("chosen", DType.FLOAT32, (None, 4))
    doubled, empty = builder("doubled"), builder("empty")
    inner = doubled.input("inner", DType.FLOAT32, (None, 4))
    doubled.output(doubled.op("CONCATENATION", [inner, inner], ConcatenationAttrs(0)))
    empty.input("other", DType.FLOAT32, (None, 4))
    nothing = empty.constant("none", np.zeros((0, 4), np.float32))
    empty.output(empty.op("RESHAPE", [nothing], ReshapeAttrs((0, 4))))
    net.b.op_many("IF", [few, net.rows], [made])
    net.b.graph.ops[-1].regions = [empty.build(), doubled.build()]
    return [made, net.b.op("NEG", [made]), net.shape(made)]


def layers(net: Net) -> list[Tensor]:
    """Layers over each row that a run counts, as behind the boxes of a detector."""
    b, rows = net.b, net.rows
    random = np.random.default_rng(0)

    def floats(name: str, *sizes: int) -> Tensor:
        return b.constant(name, random.normal(0, 0.5, sizes).astype(np.float32))

    images = net.reshape(rows, -1, 2, 2, 1)
    windows = Conv2DAttrs(((1, 1), (1, 1)))
    large = b.op("RESIZE_NEAREST_NEIGHBOR", [images, net.ints(4, 4)], ResizeAttrs())
    convolved = b.op("CONV_2D", [large, floats("taps", 3, 3, 3, 1), floats("shifts", 3)], windows)
    dense = [floats("weights", 5, 4), floats("bias", 5)]
    image = b.constant("image", random.normal(0, 1, (2, 3, 7, 6)).astype(np.float32))
    corners = b.op("CUMSUM", [b.op("ABS", [rows]), net.ints(1)], CumsumAttrs())
    first = b.op(
        "CAST",
        [b.op("ZEROS_LIKE", [net.sliced_rows()])],
        CastAttrs("FLOAT32", "INT64"),
        dtype=DType.INT64,
    )
    regions = Tensor("regions", DType.FLOAT32, (None, 3, 2, 2))
    sizes = OnnxAttrs((("output_height", 2), ("output_width", 2), ("sampling_ratio", 2)), 16)
    b.op_many("CUSTOM", [image, corners, first], [regions], sizes, custom_code="onnx.RoiAlign")
    turned = b.op("TRANSPOSE", [rows, net.ints(1, 0)])
    return [
        b.op("FULLY_CONNECTED", [rows, *dense], FullyConnectedAttrs()),
        b.op("FULLY_CONNECTED", [net.reshape(rows, 1, -1, 4), *dense], FullyConnectedAttrs("RELU")),
        convolved,
        b.op("MAX_POOL_2D", [convolved], Pool2DAttrs(strides=(2, 2), kernel_shape=(2, 2))),
        regions,
        b.op("BATCH_MATMUL", [rows, floats("square", 4, 6)], BatchMatMulAttrs()),
        b.op("BATCH_MATMUL", [rows, rows], BatchMatMulAttrs(adj_y=True)),
        b.op("BATCH_MATMUL", [turned, rows], BatchMatMulAttrs()),
        b.op("L2_NORMALIZATION", [rows], L2NormAttrs()),
        b.op("ARG_MAX", [rows, net.ints(1)], ArgAttrs("INT32"), dtype=DType.INT32),
    ]


def axes(net: Net) -> list[Tensor]:
    """What goes along an axis whose length a run says, from its start or to its end."""
    b, rows = net.b, net.rows
    turned = b.op("TRANSPOSE", [rows, net.ints(1, 0)])
    more = b.op("TRANSPOSE", [net.joined(0, net.table, rows), net.ints(1, 0)])
    count = b.op("GATHER", [net.shape(rows), net.ints(0)], GatherAttrs(0))
    one, zero, depth = (b.constant("one", np.int32(value)) for value in (1, 0, 5))
    edges = b.constant("edges", np.array([[1, 2], [0, 3]], np.int32))
    times = net.joined(0, count, net.ints(2))
    places = b.op("RANGE", [zero, net.reshape(count), one], dtype=DType.INT32)
    return [
        b.op("PAD", [rows, edges]),
        b.op("PADV2", [turned, edges, b.constant("seven", np.float32(7))]),
        b.op("CUMSUM", [rows, net.ints(0)], CumsumAttrs()),
        b.op("CUMSUM", [turned, net.ints(1)], CumsumAttrs(exclusive=True, reverse=True)),
        b.op("SOFTMAX", [more], SoftmaxAttrs(1.5)),
        b.op("LOG_SOFTMAX", [more]),
        b.op("REVERSE_V2", [rows, net.ints(1)]),
        b.op("ONE_HOT", [places, depth, one, zero], OneHotAttrs(-1), dtype=DType.INT32),
        places,
        b.op("ADD", [places, places]),
        b.op("TILE", [net.sliced(net.table, [0, 0], [1, 4]), times]),
        b.op("TILE", [net.sliced(net.table, [0, 0], [3, 4]), times]),
        b.op("TILE", [rows, net.ints(1, 2)]),
    ]
