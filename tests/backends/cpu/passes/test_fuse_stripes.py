"""Which layers run stripe by stripe: those over images that leave the cache, or at the peak."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.passes import PASSES, native_pipeline
from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.fused import FUSED_STRIPE, StripeAttrs
from tests.windows import conv2d_attrs, depthwise_attrs

QUANT = Quantization.per_tensor(0.5, 0)


def layer(
    build: Builder, x: Tensor, filters: int = 0, size: int = 1, stride: int = 1, fused: str = "NONE"
) -> Tensor:
    """A CONV_2D, or without filters a DEPTHWISE_CONV_2D."""
    narrow, channels = x.dtype is DType.INT8, x.static_shape[3]
    shape = (filters, size, size, channels) if filters else (1, size, size, channels)
    weights = np.zeros(shape, x.dtype.numpy)
    operands = [x, build.constant("w", weights, QUANT if narrow else None)]
    quant = QUANT if narrow else None
    if filters:
        attrs: object = conv2d_attrs("SAME", stride, stride, fused, 1, 1)
        return build.op("CONV_2D", operands, attrs, quant=quant)
    attrs = depthwise_attrs("SAME", stride, stride, 1, fused, 1, 1)
    return build.op("DEPTHWISE_CONV_2D", operands, attrs, quant=quant)


def expanded(height: int, dtype: DType = DType.FLOAT32, between: int = 48) -> Graph:
    """An inverted residual: few channels, many, few."""
    build = builder()
    shape = (1, height, height, 8)
    x = build.input("x", dtype, shape, QUANT if dtype is DType.INT8 else None)
    x = layer(build, layer(build, x, between), size=3)
    return build.output(layer(build, x, 8)).build()


def kinds(graph: Graph) -> list[str]:
    """The kinds of a graph's operators."""
    return [op.kind for op in graph.ops]


def test_layers_over_large_images_run_together() -> None:
    graph = expanded(129)
    assert PASSES.make("fuse-stripes").run(graph)
    (op,) = graph.ops
    assert op.kind == FUSED_STRIPE and isinstance(op.attrs, StripeAttrs)
    assert [part.kind for part in op.attrs.parts] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]


def test_rows_of_a_stripe_fit_the_buffers() -> None:
    graph = expanded(129)
    PASSES.make("fuse-stripes", buffer_bytes=1 << 18).run(graph)
    attrs = graph.ops[0].attrs
    assert isinstance(attrs, StripeAttrs)
    rows = -(-129 // attrs.stripes)
    assert 8 < attrs.stripes < 129 and (2 * rows + 2) * 129 * 48 * 4 <= 1 << 18


def test_small_images_stay_whole() -> None:
    graph = expanded(56)
    assert not PASSES.make("fuse-stripes").run(graph)
    assert FUSED_STRIPE not in kinds(graph)


def test_bytes_take_less_room_than_floats() -> None:
    assert not PASSES.make("fuse-stripes").run(expanded(129, DType.INT8))
    assert PASSES.make("fuse-stripes").run(expanded(257, DType.INT8))


def test_rows_that_cost_much_are_not_made_again() -> None:
    build = builder()
    x = layer(build, build.input("x", DType.FLOAT32, (1, 48, 48, 512)), 512)
    graph = build.output(layer(build, x, size=7)).build()
    assert not PASSES.make("fuse-stripes").run(graph)


def test_images_of_few_stripes_stay_whole() -> None:
    build = builder()
    x = layer(build, build.input("x", DType.FLOAT32, (1, 34, 1024, 8)), 48)
    graph = build.output(layer(build, x, size=7)).build()
    assert not PASSES.make("fuse-stripes").run(graph)


def test_an_image_with_two_readers_stays_whole() -> None:
    build = builder()
    x = layer(build, build.input("x", DType.FLOAT32, (1, 129, 129, 8)), 48)
    graph = build.output(layer(build, x, size=3), layer(build, x, 4)).build()
    assert not PASSES.make("fuse-stripes").run(graph)


def test_an_output_stays_whole() -> None:
    build = builder()
    x = layer(build, build.input("x", DType.FLOAT32, (1, 129, 129, 8)), 48)
    graph = build.output(x, layer(build, x, size=3)).build()
    assert not PASSES.make("fuse-stripes").run(graph)


def test_layers_that_add_in_another_order_for_other_images_stay_apart() -> None:
    build = builder()
    x = layer(build, build.input("x", DType.FLOAT32, (1, 129, 129, 8)), 48, 3)
    graph = build.output(layer(build, x, size=3)).build()
    assert not PASSES.make("fuse-stripes").run(graph)


def test_chains_end_where_they_would_get_long() -> None:
    build = builder()
    x = build.input("x", DType.FLOAT32, (1, 129, 129, 64))
    for _ in range(3):
        x = layer(build, layer(build, x, size=3), 64)
    graph = build.output(x).build()
    PASSES.make("fuse-stripes", most_parts=4).run(graph)
    parts = [op.attrs.parts for op in graph.ops if isinstance(op.attrs, StripeAttrs)]
    assert [len(part) for part in parts] == [4, 2]


def two_peaks() -> Graph:
    """A high peak of bytes, then a low one."""
    build = builder()
    x = layer(build, build.input("x", DType.INT8, (1, 96, 96, 16), QUANT), 96)
    x = layer(build, layer(build, x, size=3, stride=2), 16)
    x = layer(build, layer(build, x, 24), size=3)
    return build.output(layer(build, x, 8)).build()


def test_memory_is_saved_where_the_peak_is() -> None:
    graph = two_peaks()
    assert PASSES.make("save-memory", least_bytes=1 << 17).run(graph)
    assert kinds(graph) == [FUSED_STRIPE, "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]


def test_a_low_peak_is_left() -> None:
    graph = two_peaks()
    assert not PASSES.make("save-memory", least_bytes=1 << 21).run(graph)


def test_an_input_that_needs_padding_is_copied_stripe_by_stripe() -> None:
    build = builder()
    x = build.input("x", DType.INT8, (1, 20, 20, 3), QUANT)
    first = layer(build, x, 8, size=3, stride=2)
    graph = build.output(first, layer(build, x, 4)).build()
    layers = list(graph.ops)
    PASSES.make("save-memory").run(graph)
    attrs = graph.ops[0].attrs
    assert isinstance(attrs, StripeAttrs) and graph.ops[1:] == layers[1:]
    assert [part.kind for part in attrs.parts] == ["RESHAPE", "CONV_2D"]
    assert layers[0].inputs[0] is x


def test_a_level_saves_memory() -> None:
    counts = {}
    for level in ("O1", "O2", "Os"):
        graph = two_peaks()
        native_pipeline(level, check=True).run(graph)
        counts[level] = len(graph.ops)
    assert counts == {"O1": 6, "O2": 6, "Os": 5}
