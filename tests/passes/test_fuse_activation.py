from __future__ import annotations

import pytest

from circlet.ir import DType, Quantization
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from tests.passes.harness import rewritten
from tests.passes.networks import F32, I8, conv, image

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("dtype", [F32, I8])
def test_clamp_moves_into_the_convolution(kind: str, dtype: DType) -> None:
    b = builder()
    t = conv(b, image(b, dtype))
    graph = b.output(b.op(kind, [t], name="y", quant=t.quant)).build()
    assert rewritten(graph, "fuse-activation") == ["CONV_2D"]
    (op,) = graph.ops
    assert isinstance(op.attrs, Conv2DAttrs) and op.attrs.activation == kind
    assert (op.origin.name, op.outputs, t in graph.tensors) == ("conv+y", graph.outputs, False)


def test_rescaling_clamp_stays() -> None:
    b = builder()
    t = conv(b, image(b, I8), scale=0.5)
    y = b.op("RELU", [t], name="y", quant=Quantization.per_tensor(0.25))
    assert rewritten(b.output(y).build(), "fuse-activation") == ["CONV_2D", "RELU"]


def test_value_that_others_see_keeps_its_clamp() -> None:
    b = builder()
    t = conv(b, image(b, F32))
    graph = b.output(b.op("RELU", [t], name="y"), t).build()
    assert rewritten(graph, "fuse-activation") == ["CONV_2D", "RELU"]


def test_second_clamp_stays() -> None:
    b = builder()
    t = b.op("RELU", [conv(b, image(b, F32))], name="t")
    graph = b.output(b.op("RELU6", [t], name="y")).build()
    assert rewritten(graph, "fuse-activation") == ["CONV_2D", "RELU6"]
