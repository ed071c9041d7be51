"""Policies of requantisation: read by records, kept by files' readers, refused where unknown."""

from __future__ import annotations

from math import floor, frexp

import numpy as np
import pytest

from circlet.backends.base import CompileJob
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.backends.reference.partition import ReferenceCompiler
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Quantization, Requantization, Tensor
from circlet.ir.copy import copy_of_main
from circlet.ops import unsupported_reason
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.requantization import DOUBLE, FLOAT, SINGLE, WIDE_FLOAT, WIDE_SINGLE
from circlet.ops.requantize import multiply_rounding_once
from circlet.options import Options
from circlet.placement.interface import Reason, Supported
from circlet.target.targets import parse_targets
from tests.evaluate import evaluate

FACTOR = 0.0173


def exact_single(total: int, factor: float) -> int:
    """The sum times the factor's 32-bit mantissa, in whole numbers, rounded once, halves up."""
    fraction, shift = frexp(factor)
    mantissa, right = round(fraction * 2**31), 31 - shift
    return (total * mantissa + (1 << (right - 1))) >> right


def layer(kind: str, policy: Requantization | None, dtype: DType = DType.INT8) -> Graph:
    """A layer whose sums are 4096 different numbers: one weight of 1, all else in the bias."""
    b = builder()
    count = 4096
    shape = (1, 1, 1, 1) if kind == "CONV_2D" else (1, 1)
    weights = np.ones((count, *shape[1:]), np.int8)
    bias = np.arange(count).astype(np.int32) * 7 - 14336
    x = b.input("x", dtype, shape, Quantization.per_tensor(1.0))
    unit = Quantization.per_tensor(FACTOR)
    operands = [x, b.constant("w", weights, unit), b.constant("b", bias)]
    attrs = Conv2DAttrs() if kind == "CONV_2D" else FullyConnectedAttrs()
    b.output(b.op(kind, operands, attrs, name="y", quant=Quantization.per_tensor(1.0)))
    graph = b.build()
    if policy is not None:
        graph.ops[0].requantization = policy
    return graph


def result(kind: str, policy: Requantization) -> np.ndarray:
    shape = (1, 1, 1, 1) if kind == "CONV_2D" else (1, 1)
    (found,) = evaluate(layer(kind, policy), [np.zeros(shape, np.int8)])
    return found.reshape(-1)


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_single_rounding_is_that_of_whole_numbers(kind: str) -> None:
    sums = np.arange(4096) * 7 - 14336
    factor = float(np.float32(FACTOR))
    wanted = np.clip([exact_single(int(n), factor) for n in sums], -128, 127)
    np.testing.assert_array_equal(result(kind, SINGLE), wanted)


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_a_record_reads_the_policy_and_does_not_guess_it(kind: str) -> None:
    real = (np.arange(4096) * 7 - 14336) * np.float64(np.float32(FACTOR))
    wanted = np.clip(real, -128, 127)
    errors = [np.abs(result(kind, policy) - wanted).max() for policy in (DOUBLE, SINGLE, FLOAT)]
    # The first of two roundings leaves five bits behind the point, as the factor is below 2**-5.
    assert 0.5 + 1e-6 < errors[0] <= 0.5 + 2**-6
    assert max(errors[1:]) <= 0.5 + 1e-6


def test_halves_go_up_once_and_away_from_zero_twice() -> None:
    sums = np.array([-3, -1, 1, 3])
    assert multiply_rounding_once(sums, 1 << 30, 0).tolist() == [-1, 0, 1, 2]
    assert [floor(n / 2 + 0.5) for n in sums.tolist()] == [-1, 0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "dtype", "policy"),
    [
        ("CONV_2D", DType.INT8, DOUBLE),
        ("FULLY_CONNECTED", DType.INT8, FLOAT),
        ("CONV_2D", DType.INT16, DOUBLE),  # its bias has 32 bits
        ("FULLY_CONNECTED", DType.INT16, WIDE_FLOAT),
    ],
)
def test_builder_and_reader_state_what_litert_does(
    kind: str, dtype: DType, policy: Requantization
) -> None:
    b = builder()
    b.graph = layer(kind, None, dtype)
    assert b.graph.ops[0].requantization == policy
    read = load(dumps(b.model(), "tflite"))
    assert read.main.ops[0].requantization == policy
    assert copy_of_main(read).main.ops[0].requantization == policy


def test_a_backend_without_a_kernel_says_so() -> None:
    job = CompileJob(Options(), parse_targets("x86_64_v3"))
    cpu, reference = CpuCompiler(job), ReferenceCompiler(job)
    assert isinstance(cpu.supports(layer("CONV_2D", DOUBLE).ops[0]), Supported)
    single = layer("CONV_2D", SINGLE).ops[0]
    assert isinstance(reference.supports(single), Supported)
    answer = cpu.supports(single)
    assert isinstance(answer, Reason) and "single" in answer.text


def test_a_policy_inside_a_branch_is_seen() -> None:
    b = builder()
    flag, x = b.input("flag", DType.BOOL, (1,)), b.input("x", DType.INT8, (1, 1, 1, 1))
    result = Tensor("result", DType.INT8, (1, 1, 1, 4096), Quantization.per_tensor(1.0))
    b.op_many("IF", [flag, x], [result])
    op = b.output(result).build().ops[0]
    compiler = CpuCompiler(CompileJob(Options(), parse_targets("x86_64_v3")))
    for policy, kind in ((DOUBLE, Supported), (SINGLE, Reason)):
        op.regions = [layer("CONV_2D", policy), layer("CONV_2D", policy)]
        assert isinstance(compiler.supports(op), kind)


@pytest.mark.parametrize("policy", [WIDE_SINGLE, Requantization("double", 64)])
def test_policies_that_no_record_evaluates_are_refused(policy: Requantization) -> None:
    reason = unsupported_reason(layer("CONV_2D", policy).ops[0])
    assert reason is not None and str(policy.accumulator_bits) in reason
