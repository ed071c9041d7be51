"""8-bit element-wise operators that are computed in floats give what their records say."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.elementwise.float_forms import in_floats
from circlet.ir import DType, Graph, Quantization
from circlet.ops.arithmetic import MulAttrs
from circlet.ops.build import builder
from circlet.ops.expr import Param, Scalar, leaves
from circlet.ops.scalars import element_scalar
from tests.backends.cpu.harness import AND_V3, check_native, runnable
from tests.tiers import slow

# Scales of operands and result. With powers of two many results lie half way between integers.
SCALES = [(0.05, 0.002, 0.05), (0.013, 0.7, 0.9), (1.0, 0.5, 1.0), (0.25, 0.25, 0.125), (3.0, 3, 1)]
TWICE = SCALES[1]  # some products end so close to a half that one rounding takes them across


def _graph(kind: str, dtype: DType, scales: tuple[float, float, float]) -> Graph:
    """Every pair of values: rows of the first operand's by columns of the second's."""
    zeros = (-3, 7, 5) if dtype is DType.INT8 else (120, 131, 9)
    quants = [
        Quantization.per_tensor(float(np.float32(s)), z) for s, z in zip(scales, zeros, strict=True)
    ]
    made = builder()
    values = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    second = made.constant("second", values[None, :], quants[1])
    first = made.input("first", dtype, (256, 256), quants[0])
    attrs = [MulAttrs("RELU")] if kind == "MUL" else []
    return made.output(made.op(kind, [first, second], *attrs, name="y", quant=quants[2])).build()


def _params(scalar: Scalar) -> list[Param]:
    return [leaf for leaf in leaves(scalar.expr) if isinstance(leaf, Param)]


def _all_values(dtype: DType) -> np.ndarray:
    values = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    return np.ascontiguousarray(np.broadcast_to(values[:, None], (256, 256)))


@pytest.mark.parametrize("name", AND_V3)
@pytest.mark.parametrize("dtype", [DType.INT8, *slow(DType.UINT8)])
@pytest.mark.parametrize("kind", ["MUL", "PRELU"])
def test_every_pair_is_exact(kind: str, dtype: DType, name: str) -> None:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    for scales in SCALES:
        check_native(_graph(kind, dtype, scales), [_all_values(dtype)], target)


@pytest.mark.parametrize("kind", ["MUL", "PRELU"])
def test_usual_scales_have_a_form_in_floats(kind: str) -> None:
    (op,) = _graph(kind, DType.INT8, SCALES[0]).ops
    exact = element_scalar(op)
    assert exact is not None
    form = in_floats(op, exact)
    assert form.expr != exact.expr
    assert {"output", "alpha"} & set(form.params)


def test_products_that_end_close_to_a_half_are_rounded_twice() -> None:
    (op,) = _graph("MUL", DType.INT8, TWICE).ops
    exact = element_scalar(op)
    assert exact is not None
    assert "output_power" in {leaf.name for leaf in _params(in_floats(op, exact))}


def test_operators_that_rescale_nothing_stay_integers() -> None:
    made = builder()
    quant = Quantization.per_tensor(0.5, 3)
    x = made.input("x", DType.INT8, (4, 4), quant)
    y = made.output(made.op("MAXIMUM", [x, x], name="y", quant=quant))
    (op,) = y.build().ops
    exact = element_scalar(op)
    assert exact is not None and in_floats(op, exact) is exact
