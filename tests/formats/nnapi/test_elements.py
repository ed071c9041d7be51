"""Comparisons, choices, reductions, movement and places, where NNAPI has its own conventions."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import FormatError, UnsupportedOpsError
from tests.formats.nnapi.networks import BYTES, FLOATS, INTS
from tests.formats.nnapi.several import BOOLS, Several

ONE = {"scale": 1.0, "zeroPoint": 0}


def test_bytes_compare_as_numbers_whatever_their_scales() -> None:
    network = Several()
    left = network.input([1, 2, 3], BYTES, scale=2.0, zeroPoint=0)
    right = network.input([3, 3, 5], BYTES, scale=1.5, zeroPoint=1)
    network.makes("GREATER", [left, right], (BOOLS, (3,)))
    assert network.answers()[0].tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("op", "expected"), [("GREATER_EQUAL", [True, True, False]), ("LESS", [False, False, True])]
)
def test_truth_compares(op: str, expected: list[bool]) -> None:
    network = Several()
    pair = [network.input([True, False, False], BOOLS), network.input([False, False, True], BOOLS)]
    network.makes(op, pair, (BOOLS, (3,)))
    assert network.answers()[0].tolist() == expected


def test_truth_as_bytes_is_255() -> None:
    network = Several()
    pair = [network.input([1.0, 2.0]), network.input([1.0, 3.0])]
    network.makes("EQUAL_EX", pair, (BYTES, (2,), ONE))
    assert network.answers()[0].tolist() == [255, 0]


@pytest.mark.parametrize(("op", "expected"), [("MAXIMUM", [9, 9]), ("MINIMUM", [7, 8])])
def test_extrema_are_at_the_scale_of_the_result(op: str, expected: list[int]) -> None:
    """2 and 1.5 beside 1 and 2, stored in halves around 5."""
    network = Several()
    left = network.input([8, 6], BYTES, scale=0.25, zeroPoint=0)
    right = network.input([1, 2], BYTES, scale=1.0, zeroPoint=0)
    network.makes(op, [left, right], (BYTES, (2,), {"scale": 0.5, "zeroPoint": 5}))
    assert network.answers()[0].tolist() == expected


def test_what_is_chosen_is_at_the_scale_of_the_result() -> None:
    network = Several()
    chosen = network.input([True, False], BOOLS)
    left = network.input([8, 6], BYTES, scale=0.25, zeroPoint=0)
    right = network.input([1, 2], BYTES, scale=1.0, zeroPoint=0)
    result = (BYTES, (2,), {"scale": 0.5, "zeroPoint": 5})
    network.makes("SELECT", [chosen, left, right], result)
    assert network.answers()[0].tolist() == [5 + 4, 5 + 4]


@pytest.mark.parametrize("declared", [(1,), ()])
def test_one_element_has_one_dimension(declared: tuple[int, ...]) -> None:
    network = Several()
    operands = [network.input([[1.0, 5.0], [2.0, 3.0]]), network.constant([0, 1, -1], INTS)]
    network.makes("REDUCE_MAX", [*operands, network.scalar(False)], (FLOATS, declared))
    (result,) = network.answers()
    assert result.tolist() == [5]


def test_the_place_in_a_list_has_one_dimension() -> None:
    network = Several()
    network.makes("ARGMIN", [network.input([4, 2, 2], INTS), network.scalar(-1)], (INTS, (1,)))
    assert network.answers()[0].tolist() == [1]


def test_a_slice_of_one_element_has_one_dimension() -> None:
    network = Several()
    lists = [network.constant([value], INTS) for value in (2, 3, 1)]
    operands = [network.input([4.0, 5.0, 6.0]), *lists, *network.scalars(0, 0, 1)]
    network.makes("STRIDED_SLICE", operands, (FLOATS, (1,)))
    assert network.answers()[0].tolist() == [6]


def test_axes_may_come_in_a_run_and_twice() -> None:
    network = Several()
    operands = [network.input(np.arange(6.0).reshape(2, 3)), network.input([1, -1], INTS)]
    network.makes("MEAN", [*operands, network.scalar(0)], (FLOATS, (2,)))
    assert network.answers()[0].tolist() == [1, 4]


def test_without_an_order_axes_are_reversed() -> None:
    network = Several()
    operands = [network.input(np.arange(6.0).reshape(1, 2, 3)), network.left_out(INTS)]
    network.makes("TRANSPOSE", operands, (FLOATS, (3, 2, 1)))
    assert network.answers()[0].reshape(-1).tolist() == [0, 3, 1, 4, 2, 5]


def test_parts_of_other_scales_are_joined_at_that_of_the_result() -> None:
    network = Several()
    left = network.input([[2, 4]], BYTES, scale=0.5, zeroPoint=0)
    right = network.input([[11]], BYTES, scale=2.0, zeroPoint=10)
    result = (BYTES, (1, 3), {"scale": 1.0, "zeroPoint": 100})
    network.makes("CONCATENATION", [left, right, network.scalar(-1)], result)
    assert network.answers()[0].tolist() == [[101, 102, 102]]


def test_borders_of_bytes_are_given_as_they_are_stored() -> None:
    network = Several()
    source = network.input([7, 8], BYTES, scale=0.5, zeroPoint=9)
    operands = [source, network.constant([[1, 2]], INTS), network.scalar(3)]
    network.makes("PAD_V2", operands, (BYTES, (5,), {"scale": 0.5, "zeroPoint": 9}))
    assert network.answers()[0].tolist() == [3, 7, 8, 3, 3]


def test_outputs_say_how_one_extension_splits() -> None:
    network = Several()
    operands = [network.input([1.0, 2.0, 3.0]), network.input([1, 2], INTS)]
    operands += [network.input([0], INTS), network.scalar(2)]
    network.makes("SPLIT_V_EX", operands, (FLOATS, (1,)), (FLOATS, (2,)))
    first, second = network.answers()
    assert (first.tolist(), second.tolist()) == ([1], [2, 3])


def test_a_count_that_outputs_contradict_is_refused() -> None:
    network = Several()
    operands = [network.input([1.0, 2.0]), *network.scalars(0, 3)]
    network.makes("SPLIT", operands, (FLOATS, (1,)), (FLOATS, (1,)))
    with pytest.raises(FormatError, match="it splits into 3 parts and has 2 outputs"):
        network.answers()


def test_projections_tell_functions_apart_or_do_not() -> None:
    """The newer sparse form adds 2 ** bits for each function before."""
    found = {}
    for form in (1, 2, 3):
        network = Several()
        seeds = network.constant([[0.123, 0.456], [-0.321, 1.234], [5.678, -4.321]])
        items = network.input([12345, 54321, 67890, 9876], INTS)
        weights = network.input([0.12, 0.34, 0.56, 0.78])
        sizes = (6,) if form == 2 else (3,)
        network.makes(
            "LSH_PROJECTION", [seeds, items, weights, network.scalar(form)], (INTS, sizes)
        )
        found[form] = network.answers()[0]
    bits = found[2].reshape(3, 2)
    assert found[1].tolist() == (bits @ [2, 1]).tolist()
    assert (found[3] - found[1]).tolist() == [0, 4, 8]


def test_an_equation_says_which_axes_are_summed() -> None:
    network = Several()
    left, right = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    equation = network.constant(list(b"ij,jk->ki"), BYTES, scale=1.0, zeroPoint=0)
    network.makes(
        "EINSUM_EX", [network.input(left), network.input(right), equation], (FLOATS, (4, 2))
    )
    np.testing.assert_allclose(network.answers()[0], (left @ right).T)


@pytest.mark.parametrize(
    ("below", "above", "kept"),
    [(0, 0, [[1, 0], [0, 4], [0, 0]]), (-1, 0, [[1, 0], [3, 4], [5, 6]]), (1, -1, None)],
)
def test_bands_of_matrices_are_kept(below: int, above: int, kept: list[list[int]] | None) -> None:
    network = Several()
    operands = [network.input([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), *network.scalars(below, above)]
    network.makes("MATRIX_BAND_PART_EX", operands, (FLOATS, (3, 2)))
    expected = kept or [[1, 2], [3, 4], [0, 6]]
    assert network.answers()[0].tolist() == expected


def test_seeds_alone_decide_numbers() -> None:
    """As tf.random.stateless_uniform([4], seed=[1, 1])."""
    network = Several()
    operands = [network.input([4], INTS), network.input([1, 1], INTS)]
    network.makes("STATELESS_RANDOM_UNIFORM_EX", operands, (FLOATS, ()))
    expected = [0.09827709, 0.14063823, 0.4553436, 0.10658443]
    np.testing.assert_allclose(network.answers()[0], expected, rtol=1e-6)


def test_classes_are_drawn_as_often_as_logits_say() -> None:
    network = Several()
    operands = [network.input(np.log([[1.0, 3.0]])), network.scalar(4000)]
    network.makes("RANDOM_MULTINOMIAL", [*operands, network.input([7, 9], INTS)], (INTS, (1, 4000)))
    (first,), (again,) = network.answers(), network.answers()
    assert abs(first.mean() - 0.75) < 0.03
    assert (first == again).all()
    (other,) = network.answers(network.given[0], np.array([7, 10], np.int32))
    assert (first != other).any()


def test_scalars_that_only_a_run_knows_are_refused_by_name() -> None:
    network = Several()
    operands = [network.input([1.0, 2.0]), network.input(0, "INT32"), network.input([1], INTS)]
    network.makes("GATHER", operands, (FLOATS, (1,)))
    with pytest.raises(UnsupportedOpsError, match="is no constant"):
        network.answers()
