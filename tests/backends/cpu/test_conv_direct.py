"""Native convolutions of volumes give what the records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType
from tests.backends.cpu.cases import Cases, each_width
from tests.ops.one_op import assert_agrees, make_op, tensor
from tests.windows import conv3d_attrs

F32 = DType.FLOAT32


@each_width
def test_volumes_equal_the_record(target: str) -> None:
    cases = Cases()
    for padding, steps in (("SAME", (1, 1, 1)), ("VALID", (1, 2, 1)), ("SAME", (2, 1, 2))):
        x, w = cases.data(F32, (2, 3, 5, 6, 3)), cases.data(F32, (2, 2, 3, 3, 19), scale=0.3)
        bias = cases.data(F32, (19,))
        attrs = conv3d_attrs(padding, steps[0], steps[2], steps[1], "RELU")
        cases.op("CONV_3D", [x, w, bias], attrs)
    cases.check(target, threads=2)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_volumes_agree_with_the_peer(padding: str) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 4, 5, 6, 3)).astype(np.float32)
    w = random.standard_normal((2, 3, 2, 3, 4)).astype(np.float32)
    inputs = [tensor("x", x), tensor("w", w, constant=True)]
    attrs = conv3d_attrs(padding, 1, 2, 1)
    assert_agrees(make_op("CONV_3D", inputs, (F32, None), attrs), [x], 1e-5)


TRANSPOSED = [
    ("SAME", (2, 2, 2), (4, 8, 6)),
    ("VALID", (1, 2, 3), (3, 9, 9)),
    ("SAME", (1, 1, 1), (2, 4, 3)),
]


@each_width
def test_transposed_volumes_equal_the_record(target: str) -> None:
    cases = Cases()
    for padding, steps, sizes in TRANSPOSED:
        shape = cases.constant(np.array([2, *sizes, 19], np.int32))
        w, x = cases.data(F32, (2, 3, 3, 19, 5), scale=0.3), cases.data(F32, (2, 2, 4, 3, 5))
        attrs = conv3d_attrs(padding, steps[0], steps[2], steps[1], "RELU")
        cases.op("CONV_3D_TRANSPOSE", [shape, w, x, cases.data(F32, (19,))], attrs)
    cases.check(target, threads=2)


@pytest.mark.parametrize(("padding", "steps", "sizes"), TRANSPOSED)
def test_transposed_volumes_agree_with_the_peer(
    padding: str, steps: tuple[int, int, int], sizes: tuple[int, int, int]
) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((1, 2, 4, 3, 5)).astype(np.float32)
    inputs = [
        tensor("shape", np.array([1, *sizes, 4], np.int32), constant=True),
        tensor("w", random.standard_normal((2, 3, 3, 4, 5)).astype(np.float32), constant=True),
        tensor("x", x),
    ]
    attrs = conv3d_attrs(padding, steps[0], steps[2], steps[1])
    assert_agrees(make_op("CONV_3D_TRANSPOSE", inputs, (F32, None), attrs), [x], 1e-5)
