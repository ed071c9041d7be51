"""com.microsoft's block-quantised weights and dynamic quantisation against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.backends.cpu.lower.floats.fully_connected_block_bits import block_form
from circlet.errors import CircletError
from tests.formats.microsoft import Array, Case, check, check_together, model, ours, wanted

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

_RNG = np.random.default_rng(19)


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def raw(*sizes: int) -> Array:
    return _RNG.integers(0, 256, sizes).astype(np.uint8)


def byte(value: int) -> Array:
    return np.array(value, np.uint8)


def bits(
    depth: int,
    units: int,
    block: int,
    width: int = 4,
    zeros: str = "",
    rows: tuple[int, ...] = (3,),
    *,
    bias: bool = False,
    groups: bool = False,
) -> Case:
    blocks = -(-depth // block)
    packed = raw(units, -(-blocks * width // 8))
    points = {"": None, "packed": packed, "real": some(units, blocks) + 8}[zeros]
    order = _RNG.permutation(np.arange(depth) // block).astype(np.int32) if groups else None
    inputs = [
        some(*rows, depth),
        raw(units, blocks, block * width // 8),
        some(units, blocks),
        points,
        order,
        some(units) if bias else None,
    ]
    given = {"N": units, "K": depth, "block_size": block, "bits": width}
    return Case("MatMulNBits", inputs, given, [1, 2, 3, 4, 5])


PRODUCTS = {
    "4 bits": bits(64, 12, 32),
    "4 bits, zero points": bits(64, 12, 16, zeros="packed"),
    "4 bits, odd blocks": bits(96, 5, 32, zeros="packed", rows=(2, 3)),
    "4 bits, real zero points": bits(64, 6, 32, zeros="real"),
    "4 bits, the last block not whole": bits(80, 6, 32, zeros="packed"),
    "4 bits, a bias": bits(64, 12, 32, bias=True),
    "8 bits": bits(64, 6, 32, 8),
    "8 bits, zero points": bits(64, 6, 32, 8, "packed"),
    "2 bits": bits(64, 8, 32, 2),
}
IDS = np.array([[0, 3], [5, 1]], np.int64)


def table(width: int, depth: int, block: int, *, zeros: bool = False) -> Case:
    count = -(-depth // block)
    inputs = [raw(6, depth * width // 8), IDS, some(6, count)]
    if zeros:
        inputs.append(raw(6, -(-count * width // 8)))
    given = {"bits": width, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
    return Case("GatherBlockQuantized", inputs, given, [0, 2, 3][: 2 + zeros])


TABLES = {
    "4 bits": table(4, 64, 16),
    "4 bits, zero points": table(4, 64, 16, zeros=True),
    "4 bits, the last block not whole": table(4, 40, 16, zeros=True),
    "8 bits": table(8, 64, 16),
    "8 bits, zero points": table(8, 64, 32, zeros=True),
}

X, BYTES = some(4, 16), _RNG.integers(-127, 128, (16, 6)).astype(np.int8)
COLUMNS = _RNG.uniform(0.01, 0.03, 6).astype(np.float32)
SCALE, STEP = np.array(0.02, np.float32), np.array(0.05, np.float32)
DYNAMIC = {
    "DynamicQuantizeMatMul": Case("DynamicQuantizeMatMul", [X, BYTES, SCALE], constants=[1, 2]),
    "DynamicQuantizeMatMul of columns": Case(
        "DynamicQuantizeMatMul",
        [X, BYTES, COLUMNS, np.zeros(6, np.int8), some(6)],
        constants=[1, 2, 3, 4],
    ),
    "MatMulIntegerToFloat": Case(
        "MatMulIntegerToFloat",
        [raw(4, 16), BYTES, STEP, SCALE, byte(120), np.array(3, np.int8), some(6)],
        constants=[1, 2, 3, 4, 5, 6],
    ),
    "QAttention": Case(
        "QAttention",
        [raw(2, 4, 8), raw(8, 24), some(24), STEP, SCALE, None, byte(128), byte(120)],
        {"num_heads": 2, "unidirectional": 1},
        [1, 2, 3, 4, 6, 7],
    ),
    "MulInteger": Case(
        "MulInteger",
        [np.array([1, 200], np.uint8), byte(3), np.array([5, 7], np.uint8), byte(2)],
        constants=[1, 3],
        expected=[np.array([-6, 985], np.int32)],
    ),
    "ReduceSumInteger": Case(
        "ReduceSumInteger",
        [np.array([[1, 200], [3, 4]], np.uint8)],
        {"axes": [1], "keepdims": 0},
        expected=[np.array([201, 7], np.int32)],
    ),
}
_PLACE = (STEP, byte(128))
_TAPS = _RNG.integers(-127, 128, (5, 4, 3, 3)).astype(np.int8)
_BIAS = _RNG.integers(-99, 99, 5).astype(np.int32)
_FACTORS = _RNG.uniform(0.01, 0.03, 5).astype(np.float32)
_LARGE = (np.array(0.3, np.float32), byte(120))
_SMALL = (np.array(0.02, np.float32), byte(120))
STORED = {
    "QLinearWhere": Case(
        "QLinearWhere",
        [np.array([True, False, True]), raw(3), *_PLACE, raw(3), SCALE, byte(3), *_PLACE],
        constants=[2, 3, 5, 6, 7, 8],
    ),
    "QLinearConv, channels last": Case(
        "QLinearConv",
        [raw(1, 6, 6, 4), *_PLACE, _TAPS, _FACTORS, np.zeros(5, np.int8), *_LARGE, _BIAS],
        {"channels_last": 1, "pads": [1, 1, 1, 1]},
        [1, 2, 3, 4, 5, 6, 7, 8],
        expected=[],
    ),
    "QLinearGlobalAveragePool, channels last": Case(
        "QLinearGlobalAveragePool",
        [raw(1, 6, 6, 4), *_PLACE, *_SMALL],
        {"channels_last": 1},
        [1, 2, 3, 4],
    ),
    "QLinearReduceMean": Case(
        "QLinearReduceMean",
        [raw(2, 6), *_PLACE, *_SMALL],
        {"axes": [1], "keepdims": 1},
        [1, 2, 3, 4],
        expected=[],
    ),
}

FLOATS = {
    f"{case.kind}: {name}" if name[0].isdigit() else name: case
    for group in (PRODUCTS, TABLES, DYNAMIC)
    for name, case in group.items()
}


@pytest.mark.parametrize("name", FLOATS)
def test_an_operator_gives_what_onnx_runtime_gives(name: str) -> None:
    check(FLOATS[name])


def _stored_result(name: str) -> Array:
    """What a stored case without a kernel in ONNX Runtime must give."""
    case = STORED[name]
    assert case.inputs[0] is not None
    if case.kind != "QLinearConv":
        x = (case.inputs[0].astype(np.float64) - 128) * np.float32(0.05)
        made = np.rint(x.mean(1, keepdims=True) / np.float32(0.02)) + 120
        return np.clip(made, 0, 255).astype(np.uint8)
    image = np.ascontiguousarray(case.inputs[0].transpose(0, 3, 1, 2))
    rest, attributes = case.inputs[1:], {"pads": [1, 1, 1, 1]}
    same = Case("QLinearConv", [image, *rest], attributes, case.constants, domain="")
    return wanted(same)[0].transpose(0, 2, 3, 1)


@pytest.mark.parametrize("name", STORED)
def test_stored_results_are_within_a_step(name: str) -> None:
    case = STORED[name]
    (made,) = ours(model([case]), case.feeds(), ["reference"])
    expected = wanted(case)[0] if case.expected is None else _stored_result(name)
    assert made.dtype == expected.dtype and made.shape == expected.shape
    assert np.abs(made.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
@pytest.mark.parametrize("depth", [32, 24])
def test_rows_of_small_integers_are_gathered(kind: str, depth: int) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    low = -8 if kind == "INT4" else 0
    values, zeros = _RNG.integers(low, low + 16, (6, depth)), _RNG.integers(low, low + 16, (6, 2))
    scales, dtype = some(6, 2), getattr(ml_dtypes, kind.lower())
    real = (values - zeros.repeat(16, 1)[:, :depth]) * scales.repeat(16, 1)[:, :depth]
    case = Case(
        "GatherBlockQuantized",
        [values.astype(dtype), IDS, scales, zeros.astype(dtype)],
        {"block_size": 16},
        [0, 2, 3],
        expected=[real[IDS].astype(np.float32)],
    )
    check(case)


def test_inputs_may_name_their_blocks() -> None:
    case = bits(64, 6, 32, zeros="packed", groups=True)
    x, stored, scales, packed, order, _ = case.inputs
    assert order is not None and packed is not None and stored is not None and scales is not None
    values = np.stack([stored & 15, stored >> 4], -1).reshape(6, 64).astype(np.float32)
    zeros = np.stack([packed & 15, packed >> 4], -1).reshape(6, 2).astype(np.float32)
    weights = (values - zeros[:, order]) * scales[:, order]
    (made,) = ours(model([case]), case.feeds(), ["reference"])
    np.testing.assert_allclose(made, np.asarray(x) @ weights.T, rtol=1e-4, atol=1e-4)


def test_half_precision_scales_are_read() -> None:
    case = bits(64, 6, 32, zeros="packed")
    halves = [
        x if x is None or x.dtype != np.float32 else x.astype(np.float16) for x in case.inputs
    ]
    half = Case("MatMulNBits", halves, case.attributes, case.constants, tolerance=4e-3)
    (made,) = ours(model([half]), half.feeds(), ["reference"])
    (expected,) = ours(model([case]), case.feeds(), ["reference"])
    np.testing.assert_allclose(made, expected, rtol=2e-2, atol=0.1)


@pytest.mark.parametrize(
    ("attributes", "operands"),
    [({"K": 96}, {}), ({"block_size": 0}, {}), ({}, {2: np.zeros((5, 2), np.float32)})],
)
def test_weights_that_do_not_fit_are_named(
    attributes: dict[str, int], operands: dict[int, Array]
) -> None:
    case = bits(64, 6, 32)
    inputs = [operands.get(at, x) for at, x in enumerate(case.inputs)]
    wrong = Case("MatMulNBits", inputs, {**case.attributes, **attributes}, case.constants)
    with pytest.raises(CircletError, match="o0"):
        ours(model([wrong]), wrong.feeds(), ["reference"])


@pytest.mark.slow
def test_all_run_natively() -> None:
    session = check_together(list(FLOATS.values()))
    assert {row["backend"] for row in session.placement} == {"cpu"}


def test_weights_stay_as_they_are_stored() -> None:
    for width in (4, 8):
        graph = circlet.load(model([bits(128, 256, 32, width, "packed")])).main
        (layer,) = graph.ops
        sizes = {t.dtype.name: t.size_bytes for t in layer.inputs[1:3] if t is not None}
        assert sizes == {"UINT8": 128 * 256 * width // 8, "FLOAT32": 256 * 4 * 4}


def test_the_kernel_of_4_bits_takes_real_weights_around_zero() -> None:
    case, points = bits(128, 256, 32), np.full((256, 4), 8, np.float32)
    inputs = [points if at == 3 else x for at, x in enumerate(case.inputs)]
    graph = circlet.load(model([Case(case.kind, inputs, case.attributes, case.constants)])).main
    (layer,) = (op for op in graph.ops if op.kind == "FULLY_CONNECTED")
    weights = layer.inputs[1]
    assert weights is not None and weights.data is not None
    form = block_form(weights.data)
    assert form is not None and form.block == 32


def dynamic_lstm(batch: int, steps: int, depth: int, hidden: int, *, wide: bool = True) -> Case:
    """Both directions from a first state on, by scales of outputs or of directions."""
    outputs = 4 * hidden
    stored = [_RNG.integers(-100, 100, (2, n, outputs)).astype(np.int8) for n in (depth, hidden)]
    start = [some(2, batch, hidden), some(2, batch, hidden)]
    sizes = (2, outputs) if wide else (2,)
    scales, zeros = np.full(sizes, 0.01, np.float32), np.full(sizes, 0 if wide else 3, np.int8)
    inputs = [some(steps, batch, depth), *stored, some(2, 2 * outputs), None, *start, None]
    given = {"hidden_size": hidden, "direction": "bidirectional"}
    constants, read = [1, 2, 3, 8, 9, 10, 11], (True, True, True)
    inputs += [scales, zeros, scales, zeros]
    return Case("DynamicQuantizeLSTM", inputs, given, constants, read)


def test_a_dynamic_lstm_quantises_its_operand_and_its_state() -> None:
    """As ONNX Runtime with one thread, or one sequence, does: with more it cuts the batch."""
    check(dynamic_lstm(1, 6, 5, 8))
    cases = [dynamic_lstm(1, 6, 5, 8), dynamic_lstm(1, 3, 40, 33, wide=False)]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}
    several = circlet.Session(model([dynamic_lstm(2, 3, 5, 8)]), cache=False)
    assert {row["backend"] for row in several.placement} == {"cpu"}


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_integers_of_16_bits_are_stored_and_read_natively(dtype: type[np.integer]) -> None:
    """Rows behind whole registers, halves between two steps, and what lies beyond the limits."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero, step = np.array(low + 1000, dtype), np.array(0.25, np.float32)
    real = np.concatenate([some(3, 37).reshape(-1) * 4000, [1e9, -1e9, 0.125, 0.375, -0.125]])
    stored = _RNG.integers(low, high, (5, 19), endpoint=True).astype(dtype)
    cases = [
        Case("QuantizeLinear", [real.astype(np.float32), step, zero], {}, [1, 2]),
        Case("DequantizeLinear", [stored, step, zero], {}, [1, 2]),
    ]
    assert {row["backend"] for row in check_together(cases).placement} == {"cpu"}
