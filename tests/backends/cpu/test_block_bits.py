"""Float rows over stored weights of 4 and 8 bits give what the record gives."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops import get
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.onnx.nbits import KIND
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from tests.backends.cpu.cases import Cases, each_target
from tests.backends.cpu.harness import run_native, runnable

Array = np.ndarray
# Rows, outputs, inputs, inputs of a scale, bits, whether zero points are stored, and biases.
FORMS = (
    (1, 130, 256, 32, 4, False, True),
    (2, 33, 320, 64, 4, True, False),
    (5, 64, 1024, 128, 4, True, True),
    (9, 20, 80, 32, 4, False, False),
    (19, 40, 64, 64, 4, True, False),
    (1, 130, 256, 32, 8, False, False),
    (3, 48, 200, 128, 8, True, True),
    (17, 16, 128, 256, 8, True, False),
)


def product(
    cases: Cases, data: Tensor, sizes: tuple[int, int, int, int], *, zeros: bool, **more: object
) -> Tensor:
    """A MatMulNBits of `data` over random weights: outputs, inputs, block, bits."""
    units, depth, block, bits = sizes
    random, blocks = np.random.default_rng(units), -(-depth // block)
    shape = (units, blocks, block * bits // 8)
    points = random.integers(0, 256, units * -(-blocks * bits // 8), np.uint8)
    bias = cases.constant(random.standard_normal(units).astype(np.float32))
    operands = [
        data,
        cases.constant(random.integers(0, 256, shape, np.uint8)),
        cases.constant(random.uniform(-0.02, 0.02, (units, blocks)).astype(np.float32)),
        cases.constant(points) if zeros else None,
        None,
        bias if more.pop("bias", False) else None,
    ]
    given = {"N": units, "K": depth, "block_size": block, "bits": bits, **more}
    attrs = OnnxAttrs(tuple(sorted(given.items())), 1)
    made = cases.builder.op("CUSTOM", operands, attrs, custom_code=f"{PREFIX}{KIND}")
    cases.outputs.append(made)
    return made


def all_forms(**more: object) -> Cases:
    """A product of each form, over rows of its own."""
    cases = Cases()
    for rows, units, depth, block, bits, zeros, bias in FORMS:
        data = cases.given(cases.values(DType.FLOAT32, (rows, depth), 1))
        product(cases, data, (units, depth, block, bits), zeros=zeros, bias=bias, **more)
    return cases


@each_target
def test_floats_keep_their_digits(target: str) -> None:
    all_forms().check(target, threads=2, tolerance=4e-6)


@each_target
def test_inputs_of_every_magnitude_keep_their_digits(target: str) -> None:
    cases, random = Cases(), np.random.default_rng(5)
    for sizes in (np.zeros(512), random.uniform(-5, 2, 512), np.full(512, -33), np.full(512, 36)):
        values = random.standard_normal((1, 512)) * 10.0**sizes * (np.arange(512) % 37 != 0)
        data = cases.given((values * (sizes != 0)).astype(np.float32))
        for bits in (4, 8):
            product(cases, data, (64, 512, 32, bits), zeros=True)
    cases.check(target, tolerance=1e-5)


@each_target
def test_rounded_inputs_err_by_half_a_step_of_their_block(target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    cases = all_forms(accuracy_level=4)
    graph = cases.graph()
    assert_rounded(graph, cases.inputs, run_native(graph, cases.inputs, chosen))


def assert_rounded(graph: Graph, inputs: list[Array], results: list[Array]) -> None:
    """Results of `all_forms` err as those of inputs that were rounded to 8 bits."""
    wanted = evaluate_graph(graph, inputs)
    for op, x, got, exact in zip(graph.ops, inputs, results, wanted, strict=True):
        assert (np.abs(got - exact) <= _bound(op, x) + 1e-4).all()
        assert np.abs(got - exact).max() > 1e-5  # inputs were rounded, as the attribute allows


def _bound(op: Op, x: Array) -> Array:
    """What half a step of each block of 32 inputs may come to in each output."""
    rows, depth = x.shape
    eye = np.eye(depth, dtype=np.float32)
    given = [eye if at == 0 else None if t is None else t.data for at, t in enumerate(op.inputs)]
    (columns,) = get(op).evaluate(op, [*given[:5], None])
    padded = np.pad(np.abs(x), ((0, 0), (0, -depth % 32))).reshape(rows, -1, 32)
    steps = np.repeat(padded.max(-1) / 127, 32, axis=1)[:, :depth]
    return np.asarray(steps / 2 @ np.abs(columns))


def test_an_input_that_is_no_number_reaches_its_row_alone() -> None:
    for accuracy in (0, 4):
        cases = Cases()
        values = np.ones((3, 512), np.float32)
        values[1, 77], values[2, 5] = np.nan, np.inf
        product(cases, cases.given(values), (40, 512, 32, 4), zeros=False, accuracy_level=accuracy)
        (result,) = run_native(cases.graph(), cases.inputs)
        assert np.isfinite(result[0]).all() and not np.isfinite(result[1:]).any()


def test_a_product_worked_out_by_hand() -> None:
    """Two inputs are not 0: 3 * (15 - 8) * 0.5 + 2 * (1 - 8) * 0.25 = 7."""
    cases = Cases()
    x = np.zeros((1, 64), np.float32)
    x[0, 17], x[0, 40] = 3, 2
    stored = np.full((1, 2, 16), 0x88, np.uint8)
    stored[0, 0, 8], stored[0, 1, 4] = 0xF8, 0x81
    operands = [
        cases.given(x),
        cases.constant(stored),
        cases.constant(np.array([[0.5, 0.25]], np.float32)),
    ]
    attrs = OnnxAttrs((("K", 64), ("N", 1), ("bits", 4), ("block_size", 32)), 1)
    made = cases.builder.op("CUSTOM", operands, attrs, custom_code=f"{PREFIX}{KIND}")
    cases.outputs.append(made)
    graph = cases.graph()
    assert run_native(graph, cases.inputs)[0].item() == pytest.approx(7, abs=1e-5)
    assert evaluate_graph(graph, cases.inputs)[0].item() == 7
