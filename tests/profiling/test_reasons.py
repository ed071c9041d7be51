"""The sentence on an operator follows from its figures alone."""

from __future__ import annotations

import pytest

from circlet.backends.profiled import LEVELS_BYTES, Peaks, Work
from circlet.profiling.reasons import Facts, Piece, why
from circlet.profiling.roofline import Machine, least_times

RATES = (100.0,) * len(LEVELS_BYTES)
MACHINE = Machine(Peaks(100.0, 400.0, 150.0, 200.0, 10.0, RATES, RATES), 1, 0)


def piece(
    us: float,
    macs: int = 0,
    outputs: int = 1,
    data: int = 0,
    weights: int = 0,
    unit: str = "int8",
    copies: bool = False,
    share: float = 1.0,
) -> Piece:
    sources = ((0, "y"), (1, "z"))
    work = Work("k", "CONV_2D", sources, 8, macs, outputs, data, weights, unit, 1.0, copies)
    return Piece(work, us * share, share)


@pytest.mark.parametrize(
    ("pieces", "sentence"),
    [
        ([], "it needs no kernel"),
        ([piece(0.4, 10, 10, 10)], "a small shape: 0.40 us"),
        ([piece(10, 10**6, 10, share=0.1)], "fused: it is 10.0% of what its kernels compute"),
        ([piece(6, 10**6, 9), piece(4, copies=True, data=9)], "layout: 40% of its time"),
        ([piece(10, 10**3, 10, data=900_000)], "memory bound: 90% of the time is what moving 879"),
        ([piece(10, 10**3, 10, weights=800_000)], "far weights: 80% of the time is what fetching"),
        ([piece(10, 450_000, 50_000)], "requantisation: 9 products for each output, 50%"),
        ([piece(10, 450_000, 50_000, unit="fp32")], "arithmetic: at 90% of what the machine"),
        ([piece(10, 10**6, 10**3)], "the kernel: at 50% of the peak of int8, 1000 products"),
        ([piece(10, 10**4, 10)], "the kernel: at less than 1% of the peak of int8, 1000 products"),
        ([piece(10, 10**4, 10, weights=300_000)], "the kernel: at 30% of the rate at which its"),
        ([piece(10, 10, 1000, data=10_000)], "no products: it goes over 10000 bytes at 1.0 GB/s"),
        ([piece(10, data=10_000, copies=True)], "it only moves data: 10000 bytes at 1.0 GB/s"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_the_first_rule_that_holds_is_the_reason(pieces: list[Piece], sentence: str) -> None:
    assert why(Facts(pieces, machine=MACHINE)).startswith(sentence)


def test_what_ran_once_is_told_from_what_is_short() -> None:
    assert "depends on no input" in why(Facts([piece(0)], machine=MACHINE))
    assert "a small shape" in why(Facts([piece(0.01)], machine=MACHINE))


def test_a_fallback_says_who_refused() -> None:
    assert "a fallback" in why(Facts([piece(10)], "strings have no fixed size", MACHINE))


def test_subnormal_weights_are_a_reason_where_the_kernel_is_far_from_its_peak() -> None:
    slow, fast = piece(100, 10**6, 10**3, unit="fp32"), piece(25, 10**6, 10**3, unit="fp32")
    assert "subnormal weights: 7 are" in why(Facts([slow], subnormals=7))
    assert "subnormal" in why(Facts([slow._replace(us=1000.0)], machine=MACHINE, subnormals=7))
    assert "subnormal" not in why(Facts([fast], machine=MACHINE, subnormals=7))


def test_few_pieces_for_many_threads_are_a_reason() -> None:
    one = piece(50, 10, 10)
    alone = one._replace(work=Work("k", "SOFTMAX", ((0, "y"),), 1, 10, 10, 10, 0, "fp32"))
    sentence = why(Facts([alone], machine=MACHINE._replace(threads=4)))
    assert sentence == "a small shape: 1 piece of work for 4 threads"


def test_without_peaks_the_figures_alone_are_told() -> None:
    assert why(Facts([piece(10, 10**6, 10**3)])) == "200.0 GOP/s, 1000 products an output"


def test_least_times_are_those_of_the_peaks() -> None:
    work = piece(1, 2_000_000, 1, data=50_000, weights=100_000).work
    least = least_times(work, MACHINE)
    assert least == pytest.approx((10.0, 1.0, 0.5))  # 4 Mop at 400 GOP/s; bytes at 100 GB/s
    assert least.us == pytest.approx(10.0) and least.bound == "arithmetic"
    assert least_times(work, MACHINE._replace(threads=2)).us == pytest.approx(5.0)
