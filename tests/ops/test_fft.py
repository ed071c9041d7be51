from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Op
from tests.ops.one_op import broken_rule, make_op, own_result, peer_result, tensor


def spectrum_op(x: np.ndarray, lengths: tuple[int, int]) -> Op:
    inputs = [tensor("x", x), tensor("n", np.array(lengths, np.int32), constant=True)]
    return make_op("RFFT2D", inputs, (DType.COMPLEX64, None))


@pytest.mark.parametrize("lengths", [(1, 16), (1, 8), (1, 32), (4, 8)])
def test_spectra_agree_with_the_peer(lengths: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal((3, lengths[0], 16)).astype(np.float32)
    op = spectrum_op(x, lengths)
    wanted, actual = peer_result(op, [x]), own_result(op, [x])
    np.testing.assert_allclose(actual, wanted, atol=1e-5)


def test_ends_of_a_spectrum_have_the_angle_that_they_have_in_the_peer() -> None:
    x = np.random.default_rng(1).standard_normal((9, 1, 16)).astype(np.float32)
    op = spectrum_op(x, (1, 16))
    pair = [np.angle(result(op, [x])[..., [0, -1]]) for result in (peer_result, own_result)]
    np.testing.assert_array_equal(*pair)


def test_sizes_agree_with_the_peer() -> None:
    x = np.random.default_rng(1).standard_normal((4, 2, 5)).astype(np.float32)
    values = (x[:, 0] + 1j * x[:, 1]).astype(np.complex64)
    op = make_op("COMPLEX_ABS", [tensor("x", values)], (DType.FLOAT32, None))
    np.testing.assert_allclose(own_result(op, [values]), peer_result(op, [values]), rtol=1e-6)


def test_lengths_are_powers_of_two() -> None:
    assert broken_rule(spectrum_op(np.zeros((1, 1, 12), np.float32), (1, 12))) == "lengths"
