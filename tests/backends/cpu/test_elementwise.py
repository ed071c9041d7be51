"""Native element-wise kernels give what the scalar expressions of the records give."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from circlet.backends.cpu.lower.elementwise.affine import affine_params
from circlet.backends.cpu.lower.elementwise.small_rows import (
    joined,
    repeat_constant,
    repetitions,
)
from circlet.backends.cpu.lower.views import Loops
from circlet.ir import DType, Quantization, Tensor
from circlet.ops import NoAttrs
from circlet.ops.arithmetic import AddAttrs, MulAttrs, SubAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.opdef import find
from tests.backends.cpu.cases import (
    Cases,
    Network,
    SideBySide,
    each_target,
    each_width,
    each_width_of,
)
from tests.backends.cpu.harness import run_native, runnable

OUT = Quantization.per_tensor(0.11, -7)
OUT_U8 = Quantization.per_tensor(0.11, 120)
SECOND = Quantization.per_tensor(0.023, 11)
SHAPES = (
    ((1, 5, 7, 33), (1, 5, 7, 33)),
    ((2, 3, 4, 5), (5,)),
    ((2, 3, 4, 20), (2, 1, 1, 20)),
    ((2, 3, 4, 1), (1, 1, 4, 19)),
    ((3, 1, 2, 1, 2, 3), (1, 4, 2, 5, 1, 3)),
    ((257,), (1,)),
    ((1, 1), (40, 3)),
    ((100, 1000), (100, 1000)),
)
BINARY = {"ADD": AddAttrs, "SUB": SubAttrs, "MUL": MulAttrs}


def _binary(case: tuple[str, DType]) -> Network:
    cases, (kind, dtype) = Cases(), case
    quantised = dtype in (DType.INT8, DType.UINT8)
    out = (OUT_U8 if dtype is DType.UINT8 else OUT) if quantised else None
    activations = ("NONE",) if dtype is DType.INT32 else ("NONE", "RELU", "RELU6")
    for number, (first, second) in enumerate(SHAPES):
        a, b = cases.data(dtype, first), cases.data(dtype, second, SECOND)
        attrs = BINARY[kind](activations[number % len(activations)])
        cases.op(kind, [a, b], attrs, quant=out)
    return cases.graph(), cases.inputs


TYPES = (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32)
ARITHMETIC_256 = (
    ("ADD", DType.INT8),
    ("SUB", DType.INT32),
    ("MUL", DType.FLOAT32),
    ("MUL", DType.UINT8),
)
ARITHMETIC = SideBySide(product(BINARY, TYPES), _binary, apart=ARITHMETIC_256, threads=2)


@each_width_of("kind, dtype", product(BINARY, TYPES), ARITHMETIC_256)
def test_binary_arithmetic_equals_the_record(kind: str, dtype: DType, target: str) -> None:
    ARITHMETIC.check((kind, dtype), target)


@each_target
def test_int16_addition_equals_the_record(target: str) -> None:
    cases = Cases()
    quant = Quantization.per_tensor(0.0031)
    for shape in ((3, 5), (1, 2, 3, 70)):
        pair = [cases.data(DType.INT16, shape, quant) for _ in range(2)]
        cases.op("ADD", pair, AddAttrs("NONE", False), quant=Quantization.per_tensor(0.007))
    cases.check(target)


@each_width
def test_division_and_extremes_equal_the_records(target: str) -> None:
    cases = Cases()
    a, b = (cases.data(DType.FLOAT32, (3, 50)) for _ in range(2))
    for kind in ("DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
        cases.op(kind, [a, b])
    cases.check(target)


@each_target
def test_a_constant_operand_is_read_from_the_packed_constants(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (2, 3, 3, 21))
    cases.op("MUL", [x, cases.constant(cases.values(DType.FLOAT32, (21,)))])
    cases.op("ADD", [cases.constant(np.float32(2.5)), x])
    q = cases.data(DType.INT8, (2, 3, 3, 21))
    cases.op("ADD", [q, cases.constant(cases.values(DType.INT8, (21,)), SECOND)], quant=OUT)
    single = cases.constant(np.full((1, 1, 1, 1), 77, np.int8), SECOND)
    cases.op("SUB", [single, q], quant=OUT)
    cases.op("MUL", [q, single], MulAttrs("RELU"), quant=OUT)
    cases.check(target)


@each_target
def test_constants_of_short_rows_are_repeated(target: str) -> None:
    cases = Cases()
    x = cases.data(DType.FLOAT32, (2, 9, 11, 3))
    cases.op("MUL", [x, cases.constant(cases.values(DType.FLOAT32, (1, 1, 1, 3)))])
    q = cases.data(DType.INT8, (2, 9, 11, 3))
    for shape in ((3,), (1, 1, 3), (11, 3), (1, 9, 1, 3)):
        cases.op("SUB", [q, cases.constant(cases.values(DType.INT8, shape), SECOND)], quant=OUT)
    cases.check(target)


@each_width
def test_computed_short_rows_are_repeated(target: str) -> None:
    cases = Cases()
    for channels in (3, 9, 16, 33):
        x = cases.data(DType.FLOAT32, (2, 9, 12, channels))
        row = cases.data(DType.FLOAT32, (1, 1, 1, channels))
        cases.op("MUL", [x, row])
        cases.op("SUB", [cases.builder.op("ABS", [row]), x])
        cases.op("ADD", [x, cases.data(DType.FLOAT32, (2, 1, 1, channels))])
        q = cases.data(DType.INT8, (2, 9, 12, channels))
        stored = cases.data(DType.INT8, (channels,))
        for kind in ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE"):
            cases.op(kind, [q, stored], quant=OUT)
    cases.check(target, threads=2)


def test_rows_are_joined_where_their_number_has_a_divisor() -> None:
    moved, still = (33, 3, 1), (0, 0, 1)
    loops = Loops((5, 11, 3), (moved, still, moved))
    assert repetitions(loops) == 11
    assert joined(loops, 11) == Loops((5, 1, 33), ((33, 33, 1), (0, 0, 1), (33, 33, 1)))
    assert repetitions(Loops((1021, 3), ((3, 1), (0, 1)))) == 1
    assert repetitions(Loops((5, 11, 3), (moved, (3, 0, 1)))) == 1
    assert repetitions(Loops((11, 3), ((3, 1), (1, 0)))) == 1
    assert repetitions(Loops((11, 64), ((64, 1), (0, 1)))) == 1


def test_repeated_constants_end_at_whole_axes() -> None:
    row = Tensor("c", DType.INT8, (1, 1, 3), data=np.array([[[1, 2, 3]]], np.int8))
    repeated = repeat_constant(row, (2, 9, 30, 3))
    assert repeated.shape == (30, 3)
    np.testing.assert_array_equal(repeated.data, np.tile([1, 2, 3], (30, 1)))
    assert repeat_constant(row, (2, 3, 5, 3)).shape == (2, 3, 5, 3)
    assert repeat_constant(row, (9, 3000, 64)) is row
    assert repeat_constant(replace(row, data=None), (30, 3)).data is None


FLOAT_FUNCTIONS = (
    "ABS",
    "ELU",
    "EXP",
    "FLOOR",
    "GELU",
    "HARD_SWISH",
    "LEAKY_RELU",
    "LOG",
    "LOGISTIC",
    "NEG",
    "RELU",
    "RELU6",
    "RELU_0_TO_1",
    "RELU_N1_TO_1",
    "RSQRT",
    "SQRT",
    "SQUARE",
    "TANH",
)
POSITIVE = ("LOG", "RSQRT", "SQRT")


def _function(kind: str) -> Network:
    cases = Cases()
    for shape in ((37,), (2, 3, 5, 48)):
        data = cases.values(DType.FLOAT32, shape)
        cases.op(kind, [cases.given(np.abs(data) if kind in POSITIVE else data)])
    edges = np.array([0.0, -0.0, 1e-30, -1e-30, 3, -3, 6, 88, -88, 0.5, -0.5, 1e4], np.float32)
    if kind != "EXP" and kind not in POSITIVE:
        cases.op(kind, [cases.given(edges)])
    return cases.graph(), cases.inputs


FUNCTIONS = SideBySide(FLOAT_FUNCTIONS, _function)


@each_width
@pytest.mark.parametrize("kind", FLOAT_FUNCTIONS)
def test_float_functions_equal_the_record(kind: str, target: str) -> None:
    FUNCTIONS.check(kind, target)


@each_width
def test_divisions_by_constants_are_rounded_as_divisions(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = Cases()
    values = cases.values(DType.FLOAT32, (7, 1003))
    values[0, :6] = np.inf, -np.inf, 3e38, -3e38, 1e-38, -0.0
    cases.op("HARD_SWISH", [cases.given(values)])
    graph = cases.graph()
    with np.errstate(all="ignore"):
        (wanted,) = evaluate_graph(graph, cases.inputs)
    (got,) = run_native(graph, cases.inputs, target)
    np.testing.assert_array_equal(got, wanted)


INT16_FUNCTIONS = ("ABS", "EXP", "GELU", "LOG", "LOGISTIC", "SQRT", "TANH")


@each_width
def test_int16_functions_equal_the_record(target: str) -> None:
    cases = Cases()
    source, unit = Quantization.per_tensor(3e-4), Quantization.per_tensor(1 / 32768)
    for kind in INT16_FUNCTIONS:
        for shape in ((37,), (2, 3, 5, 48)):
            cases.op(kind, [cases.data(DType.INT16, shape, source)], quant=unit)
    cases.check(target, threads=2)


@each_target
def test_int8_squared_differences_equal_the_record(target: str) -> None:
    cases = Cases()
    for first, second in SHAPES:
        pair = [cases.data(DType.INT8, first), cases.data(DType.INT8, second, SECOND)]
        cases.op("SQUARED_DIFFERENCE", pair, quant=Quantization.per_tensor(0.07, -128))
    cases.check(target, threads=2)


FIXED = {"LOGISTIC": Quantization.per_tensor(1 / 256, -128)}


@each_width
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_8_bit_functions_are_tables(dtype: DType, target: str) -> None:
    cases = Cases()
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    for kind in ("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "LEAKY_RELU"):
        record = find(kind)
        if record is None or f"{dtype.name} -> {dtype.name}" not in record.dtypes:
            continue
        for values in (every, cases.values(dtype, (3, 5, 7)), cases.values(dtype, (1, 30, 40, 64))):
            source = cases.given(values, Quantization.per_tensor(0.047, 12))
            zero = 0 if dtype is DType.UINT8 else -128
            cases.op(kind, [source], quant=Quantization.per_tensor(1 / 256, zero))
    cases.check(target, threads=2)


@each_width
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_every_pair_of_bytes_adds_exactly(dtype: DType, target: str) -> None:
    cases = Cases()
    random = np.random.default_rng(5)
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    low, high = (0, 255) if dtype is DType.UINT8 else (-128, 127)
    for number in range(8):
        scales = np.exp(random.uniform(-4, -1, 3))
        zeros = random.integers(low, high, 3, endpoint=True)
        first, second, out = (
            Quantization.per_tensor(float(scale), int(zero))
            for scale, zero in zip(scales, zeros, strict=True)
        )
        a, b = cases.given(every[:, None], first), cases.given(every[None, :], second)
        kind = ("ADD", "SUB")[number % 2]
        cases.op(kind, [a, b], BINARY[kind]("RELU6" if number > 5 else "NONE"), quant=out)
    equal = Quantization.per_tensor(0.5, 0)
    pair = [cases.given(every[:, None], equal), cases.given(every[None, :], equal)]
    cases.op("ADD", pair, AddAttrs(), quant=Quantization.per_tensor(1.0, 0))
    cases.check(target)


def test_factors_stretch_where_a_pair_lies_next_to_a_half() -> None:
    cases = Cases()
    first = Quantization.per_tensor(0.039393551647663116, -128)
    second = Quantization.per_tensor(0.10419496148824692, 4)
    pair = [cases.data(DType.INT8, (256, 256), quant) for quant in (first, second)]
    quant = Quantization.per_tensor(0.050945673137903214, -128)
    cases.op("ADD", pair, AddAttrs("RELU"), quant=quant)
    assert affine_params(cases.graph().ops[0]) is not None
    cases.check("native")


def test_halves_away_from_zero_are_affine_with_longer_factors() -> None:
    cases = Cases()
    halves = Quantization.per_tensor(0.5, 0)
    pair = [cases.data(DType.INT8, (256, 256), halves) for _ in range(2)]
    cases.op("ADD", pair, AddAttrs(), quant=Quantization.per_tensor(1.0, 0))
    assert affine_params(cases.graph().ops[0]) is not None
    cases.check("native")


def test_sums_that_are_not_affine_keep_the_exact_expression() -> None:
    cases = Cases()
    scales = Quantization.per_tensor(0.3, 3), Quantization.per_tensor(0.1, -7)
    pair = [cases.data(DType.INT8, (4,), quant) for quant in scales]
    cases.op("ADD", pair, AddAttrs(), quant=Quantization.per_tensor(0.2, 5))
    assert affine_params(cases.graph().ops[0]) is None
    cases.check("native")


def test_sums_far_beyond_a_byte_keep_the_exact_expression() -> None:
    cases = Cases()
    every = np.arange(256, dtype=np.uint8).view(np.int8)
    wide = Quantization.per_tensor(1.0, -3)
    pair = [cases.given(every[:, None], wide), cases.given(every[None, :], wide)]
    cases.op("ADD", pair, AddAttrs(), quant=Quantization.per_tensor(0.01, 5))
    assert affine_params(cases.graph().ops[0]) is None
    cases.check("native")


def pairs() -> Cases:
    """Short rows of one operand beside all of the other, of sizes that divide vectors or do not."""
    cases = Cases()
    for dtype, inner in product((DType.FLOAT32, DType.INT32, DType.INT64), (2, 3, 4, 8, 16)):
        for shapes in (
            ((37, 1, inner), (1, 23, inner)),
            ((3, 5, 7, inner), (3, 1, 7, inner)),
            ((5, 3000, inner), (5, 1, inner)),
        ):
            first, second = (cases.data(dtype, shape) for shape in shapes)
            total = cases.op("SUB", [first, second], SubAttrs())
            cases.op("MAXIMUM", [second, total], NoAttrs())
            cases.op("LESS", [second, first], NoAttrs(), dtype=DType.BOOL)
    bytes_of = [cases.data(DType.INT8, shape, OUT) for shape in ((9, 1, 4), (1, 50, 4))]
    cases.op("MUL", bytes_of, MulAttrs(), quant=SECOND)
    return cases


@each_target
def test_rows_that_are_read_over_and_over_equal_the_record(target: str) -> None:
    pairs().check(target, threads=2)
