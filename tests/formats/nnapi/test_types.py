"""Every type that NNAPI allows for an operation means what FLOAT32 means there.

Numbers are halves that all types hold; what quantised types give may be off by a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.formats.nnapi.networks import BYTES, FLOATS, INTS
from tests.formats.nnapi.several import BOOLS, PIXELS, WIDE, Several

HALVES, SIGNED = "TENSOR_FLOAT16", "TENSOR_QUANT8_ASYMM_SIGNED"
SCALE = 0.5
ZEROS = {BYTES: 100, SIGNED: -20}
REAL = (FLOATS, HALVES)
STORED = (BYTES, SIGNED)
ALL, WITH_INTS = (*REAL, *STORED), (*REAL, *STORED, INTS)
TOLERANCES = {FLOATS: 1e-5, HALVES: 2e-2, BYTES: 0.3, SIGNED: 0.3, INTS: 0.0}
SAME, BIAS, BOX = "the type of the data", "a bias", "boxes"
_RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Row:
    """An operation, its data, the operands behind that, and the sizes of its results.

    `fixed` is the scale that results have where they are stored, and the zero point of BYTES.
    """

    op: str
    types: Sequence[str]
    data: Sequence[np.ndarray]
    rest: Sequence[Any] = ()
    results: Sequence[tuple[int, ...]] = ((2, 3),)
    kinds: Sequence[str] = ()
    fixed: tuple[float, int] | None = None
    label: str = field(default="")


def halves(*shape: int, most: int = 8) -> np.ndarray:
    return _RANDOM.integers(-most, most + 1, shape) * SCALE


def positive(*shape: int) -> np.ndarray:
    return _RANDOM.integers(1, 9, shape) * SCALE


def ints(*values: Any) -> tuple[str, list[Any]]:
    return INTS, list(values)


X, IMAGE, SMALL = halves(2, 3), halves(1, 4, 4, 2), halves(1, 3, 3, 2, most=3)
WINDOW, POOLED = (2, 2, 2, 2, 2, 0), ((1, 2, 2, 2),)
FILTERS, DEEP = halves(2, 2, 2, 2, most=3), halves(1, 2, 2, 2, most=3)
ROWS = (
    Row("ADD", WITH_INTS, [X, halves(2, 3)], [0]),
    Row("SUB", WITH_INTS, [X, halves(1, 3)], [0]),
    Row("MUL", WITH_INTS, [halves(2, 3, most=4), halves(2, 3, most=4)], [0]),
    Row("DIV", REAL, [X, positive(2, 3)], [1]),
    Row("AVERAGE_POOL_2D", ALL, [IMAGE], WINDOW, POOLED),
    Row("MAX_POOL_2D", ALL, [IMAGE], WINDOW, POOLED),
    Row("L2_POOL_2D", REAL, [IMAGE], WINDOW, POOLED),
    Row("CONCATENATION", ALL, [X, halves(2, 1)], [1], [(2, 4)]),
    Row("DEPTH_TO_SPACE", ALL, [halves(1, 2, 2, 4)], [2], [(1, 4, 4, 1)]),
    Row("SPACE_TO_DEPTH", ALL, [IMAGE], [2], [(1, 2, 2, 8)]),
    Row("FLOOR", REAL, [X]),
    Row("LOGISTIC", ALL, [X], fixed=(1 / 256, 0)),
    Row("TANH", ALL, [X], fixed=(1 / 128, 128)),
    *(Row(op, ALL, [X]) for op in ("RELU", "RELU1", "RELU6", "HARD_SWISH")),
    Row("ELU", REAL, [X], [1.0]),
    Row("ELU", REAL, [X], [0.3], label="-0.3"),
    Row("RESHAPE", WITH_INTS, [X], [ints(3, 2)], [(3, 2)]),
    Row("RESIZE_BILINEAR", ALL, [IMAGE], [8, 8], [(1, 8, 8, 2)]),
    Row("RESIZE_NEAREST_NEIGHBOR", ALL, [IMAGE], [0.5, 0.5], POOLED),
    Row("SOFTMAX", ALL, [X], [1.0], fixed=(1 / 256, 0)),
    Row("LOG_SOFTMAX", REAL, [X], [2.0, 0]),
    Row("L2_NORMALIZATION", ALL, [X + 5], fixed=(1 / 128, 128)),
    Row("LOCAL_RESPONSE_NORMALIZATION", REAL, [IMAGE], [1, 1.0, 1.0, 0.5], [IMAGE.shape]),
    Row("INSTANCE_NORMALIZATION", REAL, [IMAGE], [1.5, 0.5, 0.001, False], [IMAGE.shape]),
    Row("BATCH_TO_SPACE_ND", ALL, [halves(4, 2, 2, 1)], [ints(2, 2)], [(1, 4, 4, 1)]),
    Row("SPACE_TO_BATCH_ND", ALL, [IMAGE], [ints(2, 2), ints([0, 0], [0, 0])], [(4, 2, 2, 2)]),
    Row("MEAN", ALL, [X], [ints(1), 0], [(2,)]),
    Row("PAD", ALL, [X], [ints([1, 0], [0, 2])], [(3, 5)]),
    Row("PAD_V2", REAL, [X], [ints([1, 0], [0, 2]), 1.5], [(3, 5)]),
    Row("MIRROR_PAD", WITH_INTS, [X], [ints([1, 0], [0, 2]), 0], [(3, 5)]),
    Row("SQUEEZE", ALL, [halves(1, 3, 1)], [ints(0, 2)], [(3,)]),
    Row("EXPAND_DIMS", WITH_INTS, [X], [1], [(2, 1, 3)]),
    Row("STRIDED_SLICE", ALL, [X], [ints(0, 0), ints(2, 3), ints(1, 2), 0, 0, 0], [(2, 2)]),
    Row("SLICE", WITH_INTS, [X], [ints(0, 1), ints(-1, 2)], [(2, 2)]),
    Row("TRANSPOSE", ALL, [X], [ints(1, 0)], [(3, 2)]),
    Row("REVERSE", WITH_INTS, [X], [ints(1)]),
    Row("SPLIT", WITH_INTS, [halves(2, 4)], [1, 2], [(2, 2), (2, 2)]),
    Row("TILE", WITH_INTS, [X], [ints(2, 1)], [(4, 3)]),
    Row("GATHER", WITH_INTS, [X], [1, ints(2, 0)], [(2, 2)]),
    Row("CHANNEL_SHUFFLE", ALL, [halves(2, 4)], [2, 1], [(2, 4)]),
    Row("TOPK_V2", WITH_INTS, [np.array([[1, 3, 2, 5.0]])], [2], [(1, 2)] * 2, [SAME, INTS]),
    Row("ARGMAX", WITH_INTS, [np.array([[1, 3, 2, 5.0]])], [1], [(1,)], [INTS]),
    Row("ARGMIN", WITH_INTS, [np.array([[1, 3, 2, 5.0]])], [1], [(1,)], [INTS]),
    Row("RANK", WITH_INTS, [X], results=[()], kinds=["INT32"]),
    *(Row(op, (*REAL, INTS), [X]) for op in ("ABS", "NEG")),
    *(Row(op, REAL, [positive(2, 3)]) for op in ("EXP", "LOG", "SIN", "SQRT")),
    Row("RSQRT", ALL, [positive(2, 3)], fixed=(1 / 64, 0)),
    Row("POW", REAL, [positive(2, 3), halves(2, 3, most=2)]),
    *(Row(op, WITH_INTS, [X, halves(2, 3)]) for op in ("MAXIMUM", "MINIMUM")),
    *(
        Row(op, WITH_INTS, [X, halves(2, 3)], kinds=[BOOLS])
        for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    ),
    Row("PRELU", ALL, [X, halves(1, 3, most=4)]),
    *(Row(op, ALL, [X], [ints(1), False], [(2,)]) for op in ("REDUCE_MAX", "REDUCE_MIN")),
    *(Row(op, REAL, [X], [ints(1), False], [(2,)]) for op in ("REDUCE_SUM", "REDUCE_PROD")),
    Row("FULLY_CONNECTED", ALL, [X, halves(2, 3, most=3)], [BIAS, 0], [(2, 2)]),
    Row("BATCH_MATMUL", (*REAL, SIGNED, INTS), [X, halves(2, 3)], [False, True], [(2, 2)]),
    Row("BATCH_MATMUL", (*REAL, INTS), [X, halves(2, 3)], [True, False], [(3, 3)], label="-other"),
    Row("CONV_2D", ALL, [SMALL, FILTERS], [BIAS, 2, 1, 1, 0], POOLED),
    Row("DEPTHWISE_CONV_2D", ALL, [SMALL, DEEP], [BIAS, 2, 1, 1, 1, 0], POOLED),
    Row("GROUPED_CONV_2D", ALL, [SMALL, FILTERS[..., :1]], [BIAS, 2, 1, 1, 2, 0, False], POOLED),
    Row(
        "TRANSPOSE_CONV_2D",
        ALL,
        [halves(1, 2, 2, 2, most=3), FILTERS],
        [BIAS, ints(1, 4, 4, 2), 2, 2, 2, 0, False],
        [(1, 4, 4, 2)],
    ),
    Row("ROI_ALIGN", ALL, [IMAGE], [BOX, ints(0), 2, 2, 1.0, 1.0, 2, 2, False], POOLED),
    Row("ROI_POOLING", ALL, [IMAGE], [BOX, ints(0), 2, 2, 1.0, 1.0, False], POOLED),
)


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    return np.rint(values / SCALE) + ZEROS[kind] if kind in ZEROS else values


def scale_of(row: Row, kind: str) -> dict[str, Any]:
    """How results are quantised."""
    if kind not in ZEROS:
        return {}
    if row.fixed is None:
        return {"scale": SCALE, "zeroPoint": ZEROS[kind]}
    scale, zero = row.fixed
    return {"scale": scale, "zeroPoint": zero if kind == BYTES else zero - 128}


def operand_of(network: Several, given: Any, kind: str) -> int:
    """An operand behind the data."""
    if given == BIAS and kind in ZEROS:
        scale = {"scale": SCALE * SCALE, "zeroPoint": 0}
        return network.constant([4, -2], INTS, **scale)
    if given == BIAS:
        return network.constant([1.0, -0.5], kind)
    if given == BOX and kind in ZEROS:
        return network.constant([[0, 0, 24, 32]], WIDE, **PIXELS)
    if given == BOX:
        return network.constant([[0.0, 0.0, 3.0, 4.0]], kind)
    if isinstance(given, tuple):
        return network.constant(given[1], given[0])
    if isinstance(given, float) and kind == HALVES:
        return network.operand("FLOAT16", (), "CONSTANT", data=[given])
    return network.scalar(given)


def numbers(row: Row, kind: str) -> list[np.ndarray]:
    """What a row's results stand for in some type of its data."""
    network, scale = Several(), scale_of(row, kind)
    own: dict[str, Any] = {}
    if kind in ZEROS:
        own = {"scale": SCALE, "zeroPoint": ZEROS[kind]}
    operands = [network.input(stored(each, kind), kind, **own) for each in row.data]
    operands += [operand_of(network, each, kind) for each in row.rest]
    kinds = [kind if each == SAME else each for each in row.kinds] or [kind] * len(row.results)
    results = [
        (made, sizes, scale) if made in ZEROS else (made, sizes)
        for made, sizes in zip(kinds, row.results, strict=True)
    ]
    network.makes(row.op, operands, *results)
    return [
        (array.astype(np.float64) - scale["zeroPoint"]) * scale["scale"] if made in ZEROS else array
        for made, array in zip(kinds, network.answers(), strict=True)
    ]


def in_halves(row: Row, kind: str) -> Row:
    """The row over integers, for types that have no halves."""
    data = [np.trunc(each) for each in row.data] if kind == INTS else row.data
    return Row(row.op, row.types, data, row.rest, row.results, row.kinds, row.fixed)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.op}{row.label}")
def test_types_of_an_operation_agree(row: Row) -> None:
    for kind in row.types:
        own = in_halves(row, kind)
        for got, wanted in zip(numbers(own, kind), numbers(own, FLOATS), strict=True):
            assert got.shape == wanted.shape
            off = np.abs(got.astype(np.float64) - wanted).max()
            assert off <= TOLERANCES[kind], f"{kind}: {off}"


def test_integers_divide_downwards() -> None:
    network = Several()
    pair = [network.input([-7, 7, 8, -8], INTS), network.input([2, -2, 2, 3], INTS)]
    network.makes("DIV", [*pair, network.scalar(0)], (INTS, (4,)))
    assert network.answers()[0].tolist() == [-4, -4, 4, -3]


COMPUTED = (
    Row("SOFTMAX", REAL, [X], [2.0]),
    Row("LOG_SOFTMAX", REAL, [X], [2.0, 1]),
    Row("INSTANCE_NORMALIZATION", REAL, [IMAGE], [1.5, 0.5, 0.001, False], [IMAGE.shape]),
    Row("RESIZE_BILINEAR", REAL, [IMAGE], [6, 8], [(1, 8, 6, 2)]),
    Row("ELU", REAL, [X], [0.3]),
)
PLACES = {"INSTANCE_NORMALIZATION": (0, 1), "RESIZE_BILINEAR": (0, 1)}


@pytest.mark.parametrize("row", COMPUTED, ids=lambda row: row.op)
def test_scalars_that_are_numbers_may_come_with_a_run(row: Row) -> None:
    wanted = numbers(row, FLOATS)[0]
    network = Several()
    operands = [network.input(each) for each in row.data]
    for place, each in enumerate(row.rest):
        if place in PLACES.get(row.op, (0,)):
            kind = "INT32" if isinstance(each, int) else "FLOAT32"
            operands.append(network.input(each, kind, ()))
        else:
            operands.append(network.scalar(each))
    network.makes(row.op, operands, (FLOATS, row.results[0]))
    np.testing.assert_allclose(network.answers()[0], wanted, rtol=1e-5, atol=1e-6)
