"""Native matrix products give what the record gives."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lowering import LOWERINGS, Lowering
from circlet.ir import DType, Quantization
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.operands import limits
from circlet.ops.requantization import EVEN
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Cases, each_target, each_width, each_width_of
from tests.backends.cpu.harness import run_native
from tests.tiers import slow

SHAPES = (
    ((5, 7), (7, 3), False, False),
    ((2, 33, 20), (20, 70), False, False),
    ((1, 4, 2, 7), (3, 1, 7, 5), False, False),
    ((2, 7, 5), (2, 3, 7), True, True),
    ((2, 1, 300), (2, 130, 300), False, True),
    ((300, 6), (300, 17), True, False),
    ((7, 9, 21), (21, 35), False, False),
    ((3, 21, 11), (35, 21), True, True),
    ((2, 3, 4, 9, 21), (2, 3, 1, 21, 50), False, False),
    ((2, 3, 2, 21, 9), (3, 1, 21, 17), True, False),
    ((1, 600, 64), (64, 70), False, False),
)
FEW_ROWS = (
    ((3, 1, 64), (3, 64, 50), False, False),
    ((2, 4, 100), (2, 100, 83), False, False),
    ((20, 3), (20, 40), True, False),
    ((8, 9), (9, 33), False, False),
    ((1, 37), (21, 37), False, True),
    ((2, 2, 40), (2, 5, 40), False, True),
    ((2, 3), (2, 3), False, True),
    ((9, 33), (50, 33), False, True),
    ((20, 1, 33), (50, 33), False, True),
    ((3, 2, 40), (40, 70), False, False),
    ((3, 40, 2), (40, 70), True, False),
    ((2, 1, 40), (21, 40), False, True),
    ((5, 70), (21, 70), False, True),
    ((2, 6, 33), (2, 9, 33), False, True),
    ((3, 40, 1), (3, 21, 40), True, True),
    ((20, 1, 40), (1, 40, 21), False, False),
    ((3, 1, 9), (3, 1, 21), True, False),
)
ONE_COLUMN = (
    ((4, 33, 20), (4, 20, 1), False, False),
    ((3, 20, 18), (3, 1, 20), True, True),
    ((2, 5, 3), (2, 3, 1), False, False),
    ((2, 1, 7, 9), (3, 9, 1), False, False),
    ((6, 9), (9, 1), False, False),
    ((1, 5, 9), (4, 9, 1), False, False),
    ((1, 5, 9), (4, 9, 66), False, False),
    ((3, 50, 64), (3, 64, 1), False, False),
    ((2, 3, 70, 33), (3, 33, 1), False, False),
    ((2, 9, 40), (40, 1), False, False),
    ((4, 5, 17), (4, 1, 17), False, True),
    ((50, 16), (2, 16, 1), False, False),
    ((2, 130, 20), (2, 20, 1), False, False),
)
SHORT_SUMS = (
    ((20, 40, 9), (20, 9, 200), False, False),
    ((20, 33, 5), (20, 131, 5), False, True),
    ((9, 2, 11, 7), (9, 1, 7, 150), False, False),
)


TABLES = {
    "any": SHAPES,
    "few_rows": FEW_ROWS,
    "one_column": ONE_COLUMN,
    "short_sums": SHORT_SUMS,
}


@each_width_of("table", TABLES, ["any"])
def test_float_products_equal_the_record(table: str, target: str) -> None:
    cases = Cases()
    for first, second, adj_x, adj_y in TABLES[table]:
        x = cases.data(DType.FLOAT32, first, scale=1)
        y = cases.data(DType.FLOAT32, second, scale=1)
        fixed = cases.constant(cases.values(DType.FLOAT32, second, 1))
        for right in (y, fixed):
            cases.op("BATCH_MATMUL", [x, right], BatchMatMulAttrs(adj_x, adj_y))
    cases.check(target, threads=2)


BYTES, WORDS = (DType.INT8, DType.INT8), (DType.INT16, DType.INT16)


@each_width_of("left, right", [BYTES, WORDS, (DType.INT16, DType.INT8)], [BYTES])
def test_integer_products_equal_the_record(left: DType, right: DType, target: str) -> None:
    cases = Cases()
    zeros = (3, -5, 7) if left is DType.INT8 else (0, 0, 0)
    scale = 0.03 if left is DType.INT8 else 0.0001
    for first, second, adj_x, adj_y in SHAPES:
        x = cases.data(left, first, Quantization.per_tensor(scale, zeros[0]))
        y = cases.data(right, second, Quantization.per_tensor(0.02, zeros[1]))
        out = Quantization.per_tensor(0.31 if left is DType.INT8 else 0.07, zeros[2])
        cases.op("BATCH_MATMUL", [x, y], BatchMatMulAttrs(adj_x, adj_y), quant=out)
    cases.check(target, threads=2)


@each_target
@pytest.mark.parametrize("is_even", [False, True], ids=["LiteRT", "ONNX Runtime"])
@pytest.mark.parametrize("table", ["any", *slow("few_rows", "one_column")])
def test_products_of_bytes_equal_the_record_whichever_operand_is_constant(
    table: str, is_even: bool, target: str
) -> None:
    """Sums are scaled as one or the other scales them."""
    cases = Cases()
    for first, second, adj_x, adj_y in TABLES[table]:
        quants = Quantization.per_tensor(0.03, 3), Quantization.per_tensor(0.02, -5)
        pair = [cases.data(DType.INT8, s, q) for s, q in zip((first, second), quants, strict=True)]
        fixed = [
            cases.constant(cases.values(DType.INT8, s), q)
            for s, q in zip((first, second), quants, strict=True)
        ]
        for operands in (pair, [pair[0], fixed[1]], [fixed[0], pair[1]]):
            attrs, quant = BatchMatMulAttrs(adj_x, adj_y), Quantization.per_tensor(0.31, 7)
            cases.op("BATCH_MATMUL", operands, attrs, quant=quant)
            cases.builder.graph.ops[-1].requantization = EVEN if is_even else None
    cases.check(target, threads=2)


def test_sums_of_bytes_at_their_limits_are_exact() -> None:
    cases, extremes = Cases(), (-128, 127)
    quant = Quantization.per_tensor(60.0)
    expected = []
    for first in extremes:
        for second in extremes:
            x, y = np.full((3, 2, 515), first, np.int8), np.full((3, 515, 18), second, np.int8)
            pair = [cases.given(values, Quantization.per_tensor(0.01, -128)) for values in (x, y)]
            cases.op("BATCH_MATMUL", pair, quant=quant)
            real = 515 * (first + 128) * (second + 128) * 0.01 * 0.01
            expected.append(np.full((3, 2, 18), round(real / 60.0), np.int8))
    for given, wanted in zip(
        run_native(cases.graph(), cases.inputs, "native"), expected, strict=True
    ):
        np.testing.assert_array_equal(given, wanted)


@each_width
@pytest.mark.parametrize("right", [DType.INT16, DType.INT8])
def test_sums_of_extremes_keep_all_bits(right: DType, target: str) -> None:
    cases = Cases()
    least, most = limits(right)
    for depth in (2, 256, 515):
        for first, second in ((-32768, least), (32767, least), (-32768, most)):
            x = cases.given(np.full((3, depth), first, np.int16), Quantization.per_tensor(0.0001))
            values = np.full((depth, 20), second, right.numpy)
            y = cases.given(values, Quantization.per_tensor(0.0002))
            step = 0.02 if right is DType.INT16 else 0.0001
            cases.op("BATCH_MATMUL", [x, y], quant=Quantization.per_tensor(step))
    cases.check(target)


@each_target
def test_scales_per_column_reach_their_columns(target: str) -> None:
    cases = Cases()
    for columns in (3, 16, 70):
        scales = np.linspace(0.001, 0.02, columns, dtype=np.float32)
        x = cases.data(DType.INT16, (9, 40), Quantization.per_tensor(0.0001))
        weights = cases.values(DType.INT8, (40, columns))
        y = cases.constant(weights, Quantization.per_channel(scales, 1))
        cases.op("BATCH_MATMUL", [x, y], quant=Quantization.per_tensor(0.001))
    cases.check(target)


def test_a_product_with_one_column_reads_its_matrix_where_it_lies() -> None:
    cases = Cases()
    matrix, column = cases.data(DType.FLOAT32, (3, 50, 64)), cases.data(DType.FLOAT32, (3, 64, 1))
    cases.op("BATCH_MATMUL", [matrix, column], BatchMatMulAttrs())
    row = LOWERINGS.choose(cases.graph().ops[0], parse_target("generic"))
    assert isinstance(row, Lowering) and row.name == "matmul_f32_column"
