"""Native float transposed convolutions against the operator record."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.floats import transpose_conv  # noqa: F401
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import Network, SideBySide, each_target
from tests.windows import transpose_conv_attrs

CASES = {
    "doubled": ((1, 5, 6, 7), (9, 3, 3, 7), (10, 12), "SAME", 2),
    "doubled_even_window": ((1, 8, 8, 16), (21, 4, 4, 16), (16, 16), "SAME", 2),
    "doubled_small_window": ((2, 4, 5, 3), (4, 2, 2, 3), (8, 10), "VALID", 2),
    "valid": ((1, 4, 5, 3), (4, 3, 3, 3), (9, 11), "VALID", 2),
    "odd_output": ((1, 5, 6, 7), (9, 3, 3, 7), (9, 11), "SAME", 2),
    "stride_one": ((1, 6, 7, 8), (33, 3, 3, 8), (6, 7), "SAME", 1),
    "gaps_between_taps": ((1, 3, 4, 5), (6, 2, 2, 5), (9, 12), "SAME", 3),
    "long_stride": ((1, 4, 4, 8), (1, 16, 16, 8), (32, 32), "SAME", 8),
    "rest_behind_last_window": ((1, 3, 3, 2), (3, 3, 3, 2), (8, 8), "VALID", 2),
}


def test_strides_that_make_many_products_are_refused_with_their_number() -> None:
    b = builder()
    shape = b.constant("shape", np.array([1, 64, 64, 1], np.int32))
    w = b.constant("w", np.ones((1, 1, 1, 1), np.float32))
    x = b.input("x", DType.FLOAT32, (1, 2, 2, 1))
    b.op("TRANSPOSE_CONV", [shape, w, x], transpose_conv_attrs("SAME", 32, 32, "NONE"))
    reason = LOWERINGS.choose(b.graph.ops[-1], parse_target("generic"))
    assert isinstance(reason, str) and "its strides make 1024 products" in reason


def _network(case: str) -> Network:
    image, weights, sizes, padding, stride = CASES[case]
    random = np.random.default_rng(1)
    b = builder()
    shape = b.constant("shape", np.array([image[0], *sizes, weights[0]], np.int32))
    w = b.constant("w", random.standard_normal(weights).astype(np.float32) / 4)
    offsets = b.constant("b", random.standard_normal(weights[0]).astype(np.float32))
    x = b.input("x", DType.FLOAT32, image)
    attrs = transpose_conv_attrs(padding, stride, stride, "RELU")
    graph = b.output(b.op("TRANSPOSE_CONV", [shape, w, x, offsets], attrs)).build()
    return graph, [random.standard_normal(image).astype(np.float32)]


CONVOLUTIONS = SideBySide(CASES, _network)


@each_target
@pytest.mark.parametrize("case", CASES)
def test_transposed_convolution_equals_record(case: str, target: str) -> None:
    CONVOLUTIONS.check(case, target)
