"""Requantisation by floats: it is used where it is proved, and then equals integers everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from circlet.backends.cpu.lower.integers.affine_q8 import integer_requantisation
from circlet.backends.cpu.lower.integers.affine_search import (
    BITS,
    Affine,
    FloatSums,
    affine_of,
    multiples,
)
from circlet.backends.cpu.lower.integers.q8 import bias_of
from circlet.backends.cpu.lower.integers.requantisation import (
    FIXED_RELU,
    Requantisation,
    in_order,
)
from circlet.backends.cpu.lower.integers.roundings import FixedPoint, SingleFactor
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.ops.requantize import multiply_by_quantized_multiplier
from circlet.target.targets import Target
from tests.backends.cpu.cases import each_width_of
from tests.backends.cpu.harness import check_native, runnable
from tests.backends.cpu.q8_graphs import rounding_to_even
from tests.windows import conv2d_attrs

LEAST_AFFINE = 32
FLOATS = Target.of("x86_64", ("v3",))


@dataclass(frozen=True)
class _Outputs:
    """Bounds of outputs less the zero point, and the zero point."""

    low: int
    high: int
    zero: int


RELU = _Outputs(0, 255, -128)
PLAIN = _Outputs(-131, 124, 3)


def _scale(channels: int, rng: np.random.Generator, least_right: int = 5) -> FixedPoint:
    mantissa = rng.integers(1 << 30, 1 << 31, channels)
    mantissa[0] = 1 << 30
    right = rng.integers(least_right, 9, channels)
    reach = rng.integers(10_000, 80_000, channels)
    centre = rng.integers(-5_000, 5_000, channels)
    return FixedPoint(mantissa, right, centre - reach, centre + reach)


def _equal(maps: Affine, scale: FixedPoint, outputs: _Outputs, channel: int) -> bool:
    sums = np.arange(scale.least[channel], scale.most[channel] + 1)
    factor = scale.mantissa[channel], -scale.right[channel]
    wanted = np.clip(multiply_by_quantized_multiplier(sums, *factor), outputs.low, outputs.high)
    got = maps.at(np.array([channel])).outputs(sums[None])[0] - outputs.zero
    return np.array_equal(np.clip(got, outputs.low, outputs.high), wanted)


@pytest.mark.parametrize("floats", [BITS, multiples(576)])
@pytest.mark.parametrize("outputs", [RELU, PLAIN, _Outputs(-9, 0, 7), _Outputs(-255, 0, 127)])
def test_affine_maps_give_every_sum_what_integers_give_it(
    outputs: _Outputs, floats: FloatSums
) -> None:
    scale = _scale(40, np.random.default_rng(1))
    maps, fits = affine_of(scale, (outputs.low, outputs.high), outputs.zero, floats)
    assert fits.mean() > 0.9
    assert floats is BITS or (fits.all() and (maps.start > 0).all())
    assert all(_equal(maps, scale, outputs, int(channel)) for channel in np.flatnonzero(fits))


@pytest.mark.parametrize("floats", [BITS, multiples(576)])
@pytest.mark.parametrize("outputs", [RELU, PLAIN, _Outputs(-9, 0, 7), _Outputs(-255, 0, 127)])
def test_one_offset_gives_what_halves_to_even_give(outputs: _Outputs, floats: FloatSums) -> None:
    rng = np.random.default_rng(8)
    reach = rng.integers(10_000, 80_000, 60)
    factor = rng.uniform(2.0**-9, 2.0**-4, 60).astype(np.float32)
    factor[:4] = 2.0**-5, 3 * 2.0**-8, 0.5, 2.0**-20  # halves that are met, and sums that are not
    scale = SingleFactor(factor, -reach, reach)
    maps, fits = affine_of(scale, (outputs.low, outputs.high), outputs.zero, floats)
    assert maps.offsets.shape[1] == 1 and fits.mean() > 0.9
    for channel in np.flatnonzero(fits):
        sums = np.arange(-reach[channel], reach[channel] + 1)
        wanted = np.rint(sums.astype(np.float32) * factor[channel])
        got = maps.at(np.array([channel])).outputs(sums[None])[0] - outputs.zero
        bounds = outputs.low, outputs.high
        assert np.array_equal(np.clip(got, *bounds), np.clip(wanted, *bounds))


@pytest.mark.parametrize("outputs", [RELU, PLAIN])
def test_one_slope_serves_channels_of_one_scale(outputs: _Outputs) -> None:
    scale = _scale(20, np.random.default_rng(2))
    same = scale._replace(mantissa=np.full(20, 1234567890), right=np.full(20, 7))
    maps, fits = affine_of(same, (outputs.low, outputs.high), outputs.zero)
    assert fits.all() and len(set(maps.start)) == 1
    assert all(_equal(maps, same, outputs, channel) for channel in range(20))


def test_a_map_that_misses_a_threshold_is_refused() -> None:
    """A slope of 24 bits cannot follow 31 over a million sums."""
    scale = FixedPoint(*(np.array([v]) for v in ((1 << 30) + 3, 14, -4_000_000, 4_000_000)))
    maps, fits = affine_of(scale, (-255, 255), 0)
    assert fits[0] == _equal(maps, scale, _Outputs(-255, 255, 0), 0)


@pytest.mark.parametrize(
    "wild",
    [{"right": -1}, {"right": 23}, {"most": 1 << 22}, {"least": -(1 << 22)}, {"mantissa": 0}],
)
def test_sums_that_are_no_floats_have_no_map(wild: dict[str, int]) -> None:
    scale = _scale(3, np.random.default_rng(3))
    for name, value in wild.items():
        getattr(scale, name)[1] = value
    _, fits = affine_of(scale, (RELU.low, RELU.high), RELU.zero)
    assert fits[[0, 2]].all() and not fits[1]


def test_multiples_that_leave_32_bits_have_no_map() -> None:
    scale = _scale(3, np.random.default_rng(3))
    scale.most[1] = (1 << 31) // 576
    _, fits = affine_of(scale, (RELU.low, RELU.high), RELU.zero, multiples(576))
    assert fits[[0, 2]].all() and not fits[1]


PIECES = ("NONE", "", "Q8_PIECEWISE_FIXED")
LINE = ("RELU", "", "Q8_AFFINE_FIXED_RELU")
MAPS = (
    PIECES,
    LINE,
    ("NONE", "same", "Q8_PIECEWISE"),
    ("RELU", "same", "Q8_AFFINE"),
    ("NONE", "far", "Q8_PIECEWISE_FIXED"),
    ("RELU", "far", "Q8_AFFINE_FIXED_RELU"),
    ("NONE", "steep", "Q8_PIECEWISE_GENERAL"),
    ("RELU", "steep", "Q8_AFFINE_GENERAL"),
)


EVEN_MAPS = (
    ("", "Q8_AFFINE_EVEN_SMALL"),
    ("same", "Q8_AFFINE"),
    ("far", "Q8_AFFINE_EVEN_SMALL"),
    ("huge", "Q8_EVEN"),
)


@each_width_of("activation, odd, form", MAPS, [PIECES, LINE])
def test_kernels_run_affine_maps_beside_vectors_that_have_none(
    activation: str, odd: str, form: str, target: str
) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = _graph(np.random.default_rng(4), odd, activation)
    scaling = _requantised(graph, FLOATS)
    assert scaling.form == f"{form} | Q8_SATURATED"
    are_affine = scaling.parameters[:, 4, 0] >= LEAST_AFFINE
    assert are_affine[1:-1].all() and are_affine[0] == are_affine[-1] == (odd in ("", "same"))
    values = np.random.default_rng(5).integers(-128, 128, (1, 9, 11, 3)).astype(np.int8)
    check_native(graph, [values], chosen)


@each_width_of("odd, form", EVEN_MAPS, EVEN_MAPS[:1])
def test_kernels_run_maps_of_halves_to_even(odd: str, form: str, target: str) -> None:
    chosen = runnable(target)
    if chosen is None:
        pytest.skip(f"this CPU cannot run {target}")
    graph = rounding_to_even(_graph(np.random.default_rng(4), odd, "NONE"))
    assert _requantised(graph, FLOATS).form == f"{form} | Q8_SATURATED"
    values = np.random.default_rng(5).integers(-128, 128, (1, 9, 11, 3)).astype(np.int8)
    check_native(graph, [values], chosen)


def test_targets_without_fused_products_keep_integers() -> None:
    graph = _graph(np.random.default_rng(4), "", "RELU")
    form = _requantised(graph, Target.of("riscv64")).form
    assert form == f"{FIXED_RELU} | Q8_SATURATED"


def test_few_pixels_are_not_worth_a_search() -> None:
    graph = _graph(np.random.default_rng(4), "", "RELU", pixels=(5, 5))
    assert (_requantised(graph, FLOATS).parameters[:, 4] < LEAST_AFFINE).all()


def _requantised(graph: Graph, target: Target) -> Requantisation:
    (op,) = graph.ops
    bias = bias_of(op, 192)
    folded = bias, np.abs(bias) + 30_000
    return integer_requantisation(op, folded, in_order(192, 192, 16), target)


def _graph(
    rng: np.random.Generator, odd: str, activation: str, pixels: tuple[int, int] = (9, 11)
) -> Graph:
    """A convolution of 192 channels, maybe of one scale; the sums of the first and the last may be
    far from zero, or amplified."""
    factors = rng.uniform(2.0**-7, 2.0**-5, 192)
    bias = rng.integers(-9_000, 9_000, 192)
    if odd == "same":
        factors[:] = 0.0123
    elif odd:
        factors[::191] = {"far": 2.0**-16, "steep": 3.0, "huge": 1e6}[odd]
        bias[::191] = {"far": 4_227_072, "steep": 0, "huge": 0}[odd]
    made = builder()
    image = made.input("x", DType.INT8, (1, *pixels, 3), Quantization.per_tensor(1.0, 2))
    scales = Quantization.per_channel(factors.astype(np.float32), 0)
    weights = made.constant("w", rng.integers(-127, 128, (192, 3, 3, 3)).astype(np.int8), scales)
    operands = [image, weights, made.constant("b", bias.astype(np.int32))]
    attrs = conv2d_attrs("SAME", 1, 1, activation=activation)
    quant = Quantization.per_tensor(1.0, -128 if activation == "RELU" else 3)
    return made.output(made.op("CONV_2D", operands, attrs, name="y", quant=quant)).build()
