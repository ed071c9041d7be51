"""Native slices, parts, repeats and block moves give what the records give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from circlet.ir import DType, Tensor
from circlet.ops.blocks import DepthAttrs
from circlet.ops.facts import ShapeAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.repeat import MirrorPadAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from tests.backends.cpu.cases import QUANT, Cases, each_target
from tests.windows import conv2d_attrs

SAME = conv2d_attrs("SAME", 1, 1)
TYPES = (DType.FLOAT32, DType.INT8, DType.INT64, DType.INT16)


def _ints(cases: Cases, values: npt.ArrayLike) -> Tensor:
    return cases.constant(np.asarray(values, np.int32))


def _many(cases: Cases, kind: str, inputs: Sequence[Tensor], count: int, attrs: object) -> None:
    """An op of several outputs, of types that its record infers."""
    made = [Tensor(f"{kind}{len(cases.outputs) + i}", inputs[-1].dtype, ()) for i in range(count)]
    cases.builder.op_many(kind, inputs, made, attrs)
    assert cases.builder.infer is not None
    types = cases.builder.infer(cases.builder.graph.ops[-1])
    for tensor, known in zip(made, types, strict=True):
        tensor.dtype, tensor.shape = known.dtype, known.shape
    cases.outputs.extend(made)


@each_target
def test_slices_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for shape, begin, size in (
            ((2, 5, 7, 70), (0, 1, 2, 3), (2, 3, -1, 40)),
            ((2, 5, 7, 3), (1, 0, 0, 0), (1, -1, -1, -1)),
            ((9,), (4,), (-1,)),
            ((2, 3, 4, 5, 2), (0, 1, 1, 2, 0), (2, 1, -1, 3, 1)),
        ):
            places = (_ints(cases, begin), _ints(cases, size))
            cases.op("SLICE", [cases.data(dtype, shape), *places])
    fixed = cases.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
    cases.op("SLICE", [fixed, _ints(cases, (1, 2)), _ints(cases, (2, 2))])
    cases.check(target, threads=2)


STRIDED = (
    ((2, 9, 7, 3), (0, 1, 0, 0), (2, 9, 7, 3), (1, 2, 3, 1), StridedSliceAttrs()),
    ((2, 9, 7, 3), (1, -2, -1, 0), (2, 0, -9, 3), (1, -3, -1, 2), StridedSliceAttrs()),
    ((2, 9, 7), (0, 3, 0), (0, 0, 0), (1, 1, 1), StridedSliceAttrs(5, 5, 0, 0, 2)),
    ((4, 6), (1, 0, 2), (3, 0, 5), (1, 1, 1), StridedSliceAttrs(new_axis_mask=2)),
    ((2, 3, 4, 5), (1, 0, 2), (2, 0, 4), (1, 1, 1), StridedSliceAttrs(ellipsis_mask=2)),
    ((4, 6), (1, 2), (2, 3), (1, 1), StridedSliceAttrs(offset=True)),
    ((5,), (-2,), (0,), (1,), StridedSliceAttrs(shrink_axis_mask=1)),
)


@each_target
def test_strided_slices_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for shape, begin, end, strides, attrs in STRIDED:
            lists = [_ints(cases, values) for values in (begin, end, strides)]
            cases.op("STRIDED_SLICE", [cases.data(dtype, shape), *lists], attrs)
    cases.check(target, threads=2)


@each_target
def test_small_steps_along_the_last_axis_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for step in (2, 3, 4, 5):
            for columns, first, last in ((150, 0, 150), (149, step - 1, 140), (7, 1, 7)):
                lists = [_ints(cases, row) for row in ((0, first), (3, last), (1, step))]
                data = cases.data(dtype, (3, columns))
                cases.op("STRIDED_SLICE", [data, *lists], StridedSliceAttrs())
    cases.check(target, threads=2)


@each_target
def test_splits_and_packs_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        data = cases.data(dtype, (2, 6, 4, 12))
        for axis in (0, 1, -1):
            _many(cases, "SPLIT", [_ints(cases, axis), data], 2, SplitAttrs(2))
            _many(cases, "UNPACK", [data], data.static_shape[axis], _unpack(data, axis))
            parts = [data, cases.data(dtype, (2, 6, 4, 12)), data]
            cases.op("PACK", parts, PackAttrs(3, axis), quant=None if dtype.is_float else QUANT)
    flat = cases.data(DType.UINT8, (3, 10))
    sizes = (_ints(cases, (3, -1, 1)), _ints(cases, 1))
    _many(cases, "SPLIT_V", [flat, *sizes], 3, SplitAttrs(3))
    for tensor in cases.outputs[-3:]:
        tensor.dtype = DType.UINT8
    cases.check(target, threads=2)


def _unpack(data: Tensor, axis: int) -> UnpackAttrs:
    return UnpackAttrs(data.static_shape[axis], axis)


@each_target
def test_repeats_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        cases.op("TILE", [cases.data(dtype, (2, 3, 5)), _ints(cases, (2, 1, 3))])
        cases.op("TILE", [cases.data(dtype, (2, 3, 2, 3)), _ints(cases, (2, 3, 2, 2))])
        wide = cases.data(dtype, (1, 3, 1, 5))
        cases.op("BROADCAST_TO", [wide, _ints(cases, (2, 4, 3, 6, 5))])
        deep = cases.data(dtype, (2, 1, 2, 1, 2, 1, 2, 1))
        cases.op("BROADCAST_TO", [deep, _ints(cases, (2, 3) * 4)])
        for narrow, sizes in (((4, 37, 1), (4, 37, 70)), ((5, 1), (2, 5, 3))):
            cases.op("BROADCAST_TO", [cases.data(dtype, narrow), _ints(cases, sizes)])
        one = cases.data(dtype, ())
        cases.op("FILL", [_ints(cases, (3, 50)), one], dtype=dtype)
        cases.op("FILL", [_ints(cases, ()), one], dtype=dtype)
        for axes in ((0,), (1, 3), (-1,)):
            cases.op("REVERSE_V2", [cases.data(dtype, (2, 3, 4, 5)), _ints(cases, axes)])
        for shape in ((64,), (3, 37), (2, 1, 1003)):
            last = _ints(cases, (len(shape) - 1,))
            cases.op("REVERSE_V2", [cases.data(dtype, shape), last])
    cases.op("ZEROS_LIKE", [cases.data(DType.INT64, (2, 3, 4, 5))])
    cases.check(target, threads=2)


@each_target
def test_mirrors_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for mode in ("REFLECT", "SYMMETRIC"):
            for shape, amounts in (
                ((2, 5, 7, 3), ((0, 0), (1, 2), (3, 0), (0, 0))),
                ((1, 4, 4, 33), ((0, 0), (0, 3), (2, 1), (2, 5))),
                ((9,), ((4, 8),)),
                ((3, 4), ((0, 0), (0, 0))),
            ):
                data = cases.data(dtype, shape)
                cases.op("MIRROR_PAD", [data, _ints(cases, amounts)], MirrorPadAttrs(mode))
    cases.check(target, threads=2)


@each_target
def test_onnx_pads_of_edge_elements_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        for mode in ("edge", "wrap", "reflect"):
            for shape, pads in (
                ((2, 5, 7, 3), (0, 1, 3, 0, 0, 2, 0, 0)),
                ((1, 4, 4, 33), (0, 0, 2, 2, 0, 3, 1, 5)),
                ((9,), (4, 8)),
            ):
                given = [cases.data(dtype, shape), cases.constant(np.array(pads, np.int64))]
                attrs = OnnxAttrs((("mode", mode),))
                cases.op("CUSTOM", given, attrs, dtype=dtype, custom_code="onnx.Pad")
    cases.check(target, threads=2)


@each_target
def test_blocks_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        quant = None if dtype.is_float else QUANT
        data = cases.data(dtype, (2, 6, 8, 3))
        pads = _ints(cases, ((1, 2), (0, 2)))
        wide = cases.op("SPACE_TO_BATCH_ND", [data, _ints(cases, (3, 2)), pads], quant=quant)
        back = [wide, _ints(cases, (3, 2)), pads]
        cases.op("BATCH_TO_SPACE_ND", back, quant=quant)
        line = cases.data(dtype, (4, 6, 5))
        cases.op(
            "SPACE_TO_BATCH_ND", [line, _ints(cases, [2]), _ints(cases, [[1, 1]])], quant=quant
        )
        cases.op(
            "BATCH_TO_SPACE_ND", [line, _ints(cases, [2]), _ints(cases, [[1, 2]])], quant=quant
        )
        deep = cases.op("SPACE_TO_DEPTH", [data], DepthAttrs(2))
        cases.op("DEPTH_TO_SPACE", [deep], DepthAttrs(2))
    cases.check(target, threads=2)


@each_target
def test_sizes_are_constants(target: str) -> None:
    cases = Cases()
    data = cases.data(DType.FLOAT32, (2, 3, 4))
    cases.op("SHAPE", [data], ShapeAttrs("INT32"), dtype=DType.INT32)
    cases.op("SHAPE", [data], ShapeAttrs("INT64"), dtype=DType.INT64)
    cases.op("RANK", [data], dtype=DType.INT32)
    cases.op("RANGE", [_ints(cases, value) for value in (3, 20, 4)])
    cases.op("RANGE", [cases.constant(np.float32(x)) for x in (1, 0, -0.3)])
    cases.op("ABS", [data])
    cases.check(target)


@pytest.mark.parametrize("kind", ["SLICE", "TILE", "FILL", "REVERSE_V2", "MIRROR_PAD", "RANGE"])
def test_run_time_sizes_are_refused_with_the_reason(kind: str) -> None:
    from circlet.backends.cpu import lower  # noqa: F401
    from circlet.backends.cpu.lowering import LOWERINGS
    from circlet.target.targets import parse_target

    cases = Cases()
    data = cases.data(DType.FLOAT32, (4,))
    given = [cases.given(np.array([2], np.int32)) for _ in range(2)]
    inputs = {"SLICE": [data, *given], "FILL": [given[0], data], "RANGE": [*given, given[0]]}
    shaped = inputs.get(kind, [data, given[0]])
    made = cases.builder.op(kind, shaped, shape=(2,), dtype=shaped[0].dtype)
    assert made.name
    reason = LOWERINGS.choose(cases.builder.graph.ops[-1], parse_target("generic"))
    assert isinstance(reason, str)
    assert "not constant" in reason


@pytest.mark.parametrize(("first", "taken"), [(8, True), (2000, False)])
@pytest.mark.parametrize("kind", ["TILE", "REVERSE_V2"])
def test_an_operator_is_not_unrolled_to_many_calls(kind: str, first: int, taken: bool) -> None:
    from circlet.backends.cpu import lower  # noqa: F401
    from circlet.backends.cpu.lowering import LOWERINGS
    from circlet.target.targets import parse_target

    cases = Cases()
    if kind == "TILE":
        data = cases.data(DType.INT8, (1, 2, 2, 2, 2, 2))
        numbers = [first, 1, 2, 2, 2, 1]
    else:
        data, numbers = cases.data(DType.INT8, (first, 2, 2, 2, 2, 2, 2, 2)), [0, 2, 4, 6]
    cases.builder.op(kind, [data, _ints(cases, numbers)])
    chosen = LOWERINGS.choose(cases.builder.graph.ops[-1], parse_target("generic"))
    assert isinstance(chosen, str) != taken
    assert taken or "000 kernel calls" in str(chosen)


@each_target
def test_diagonals_equal_the_record(target: str) -> None:
    cases = Cases()
    for dtype in TYPES:
        cases.op("MATRIX_DIAG", [cases.data(dtype, (2, 3, 5))])
        for shape, diagonal in (((2, 2, 4, 6), (2, 2, 4)), ((5, 3), (3,))):
            cases.op("MATRIX_SET_DIAG", [cases.data(dtype, shape), cases.data(dtype, diagonal)])
    cases.check(target, threads=2)


@each_target
def test_operands_inside_borders_are_walked_by_their_strides(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (2, 6, 8, 19))
    image = cases.op("LOGISTIC", [x])
    weights = cases.constant(cases.values(DType.FLOAT32, (4, 3, 3, 19)))
    cases.op("CONV_2D", [image, weights, cases.constant(np.zeros(4, np.float32))], SAME)
    cases.outputs.pop(0)
    cases.op("SLICE", [image, _ints(cases, (0, 1, 2, 3)), _ints(cases, (2, 3, 4, 9))])
    lists = [_ints(cases, v) for v in ((1, 0, -1, 0), (2, 6, -9, 19), (1, 2, -3, 1))]
    cases.op("STRIDED_SLICE", [image, *lists], StridedSliceAttrs(shrink_axis_mask=1))
    _many(cases, "SPLIT", [_ints(cases, 2), image], 2, SplitAttrs(2))
    _many(cases, "UNPACK", [image], 6, UnpackAttrs(6, 1))
    cases.op("PACK", [image, x], PackAttrs(2, 3))
    cases.op("TILE", [image, _ints(cases, (1, 2, 1, 2))])
    cases.op("REVERSE_V2", [image, _ints(cases, (1, 3))])
    amounts = _ints(cases, ((0, 0), (1, 2), (3, 0), (0, 4)))
    cases.op("MIRROR_PAD", [image, amounts], MirrorPadAttrs("REFLECT"))
    pads = _ints(cases, ((1, 1), (0, 0)))
    cases.op("SPACE_TO_BATCH_ND", [image, _ints(cases, (2, 2)), pads])
    cases.op("SPACE_TO_DEPTH", [image], DepthAttrs(2))
    condition = cases.given(np.arange(19) % 3 == 0)
    cases.op("SELECT_V2", [condition, image, x], dtype=DType.FLOAT32)
    cases.check(target, threads=2)


@each_target
def test_results_inside_borders_are_walked_by_their_strides(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (2, 6, 8, 19))
    weights = cases.constant(cases.values(DType.FLOAT32, (4, 3, 3, 19)))
    bias = cases.constant(np.zeros(4, np.float32))
    deep = cases.data(DType.FLOAT32, (2, 3, 4, 76))
    made = [
        cases.op("SLICE", [x, _ints(cases, (0, 1, 2, 0)), _ints(cases, (2, 3, 4, 19))]),
        cases.op("TILE", [x, _ints(cases, (1, 2, 1, 1))]),
        cases.op("REVERSE_V2", [x, _ints(cases, [3])]),
        cases.op("MIRROR_PAD", [x, _ints(cases, ((0, 0), (1, 2), (3, 0), (0, 0)))]),
        cases.op("DEPTH_TO_SPACE", [deep], DepthAttrs(2)),
        cases.op("SPACE_TO_BATCH_ND", [x, _ints(cases, (2, 2)), _ints(cases, ((1, 1), (0, 0)))]),
        cases.op("SELECT_V2", [cases.given(np.arange(19) % 3 == 0), x, x], dtype=DType.FLOAT32),
        cases.op("PACK", [cases.data(DType.FLOAT32, (2, 6, 19))] * 2, PackAttrs(2, 1)),
    ]
    cases.outputs.clear()
    for image in made:
        cases.op("CONV_2D", [image, weights, bias], SAME)
    cases.check(target, threads=2)
