"""The table of kernel variants says what there is: no kernel without a row, no row without one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pytest

from circlet.backends.cpu.bounds import bounded_partition
from circlet.backends.cpu.compile import LoweredPartition, compile_partition
from circlet.backends.cpu.lowering import KernelRef
from circlet.backends.cpu.toolchain import KERNELS_DIR
from circlet.backends.cpu.tuning.knobs import KnobSettings
from circlet.backends.cpu.tuning.variant import Numerics, Variant
from circlet.backends.cpu.tuning.variants import VARIANTS, stays_in_class
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import DType, Graph, Quantization
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.bits import BucketizeAttrs
from circlet.ops.bounded import TURNS, TurnsAttrs
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.order import CumsumAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.softmax import SoftmaxAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.options import Options
from circlet.plan.partition import partition
from circlet.plan.shapes import fix_shapes
from circlet.plan.size_rules import settle_sizes
from circlet.plan.sizes import SizeTable
from circlet.target.targets import parse_target
from tests import corpora
from tests.backends.cpu.bound_nets import (
    Net,
    detections,
    distinct,
    movements,
    numbers,
    sorted_distinct,
)
from tests.backends.cpu.cases import QUANT, Cases
from tests.backends.cpu.passes.test_fuse_columns import NORMS, along, fused
from tests.backends.cpu.stablehlo_graphs import joined_windows
from tests.backends.cpu.test_box_heads import detector
from tests.backends.cpu.test_col2im import images
from tests.backends.cpu.test_cross_sums import cross_sums
from tests.backends.cpu.test_float_groups import CASES as FEW_CHANNELS
from tests.backends.cpu.test_float_groups import network as network_of_groups
from tests.backends.cpu.test_group_attention import all_forms as attention_forms
from tests.backends.cpu.test_integer_sums import add_product
from tests.backends.cpu.test_matmul_f64 import products_of_doubles
from tests.backends.cpu.test_mediapipe import NETWORKS as MEDIAPIPE
from tests.backends.cpu.test_once import layers
from tests.backends.cpu.test_q8_groups import FOURS as GROUPS_OF_BYTES
from tests.backends.cpu.test_q8_groups import network as groups_of_bytes
from tests.backends.cpu.test_quantize import rows_of_scales
from tests.backends.cpu.test_regions import all_regions
from tests.backends.cpu.test_scatter import elements, vectors
from tests.branches import choice
from tests.corpora import corpus
from tests.docs.how_to import ROOT
from tests.recurrent import Lstm, lstm_graph, svdf_graph
from tests.recurrent_layers import DYNAMIC, Layer, dynamic_graph, layer_graph
from tests.recurrent_pairs import Pair, pair_graph
from tests.windows import conv2d_attrs, depthwise_attrs, pool_attrs

_STRUCT = re.compile(r"^struct (\w+)_params \{", re.MULTILINE)
_METHODS = {"method", "fold"}


@cache
def compiled(network: str, target: str, precision: str) -> tuple[frozenset[str], KnobSettings]:
    """The kernel functions of a network's plan for a target, and the knobs that came up."""
    options = Options(target=target, precision=precision)
    model = load(corpus(network), DEFAULT_LIMITS)
    found, settings = set[str](), KnobSettings()
    planned = plan(Template.of(model, options), options)
    for part in planned.partitions_of(planned.compilers[0]):
        done = compile_partition(
            part, parse_target(target), 1, settings=settings, precision=precision
        )
        found.update(functions(done))
    return frozenset(found), settings


def functions(compiled: LoweredPartition) -> Iterable[str]:
    for call in compiled.calls:
        if call is not None:
            yield call.kernel.function
            yield from (r.kernel.function for r in call.operands if isinstance(r, KernelRef))


def reversed_rows(name: str) -> Graph:
    cases = Cases()
    axis = cases.constant(np.array([1], np.int32))
    cases.op("REVERSE_V2", [cases.data(DType.FLOAT32, (3, 5)), axis])
    return cases.graph()


def regions(name: str) -> Graph:
    return all_regions().graph()


def own(name: str) -> Graph:
    """A graph for a row that no public network measures."""
    cases = Cases()
    if name == "cumsum":
        data, axis = cases.data(DType.FLOAT32, (3, 5)), cases.constant(np.array(1, np.int32))
        cases.op("CUMSUM", [data, axis], CumsumAttrs(False, False))
    elif name == "embedding_lookup":
        rows, quant = np.arange(40, dtype=np.int8).reshape(10, 4), Quantization.per_tensor(0.5, 0)
        places = cases.given(np.arange(7, dtype=np.int32))
        cases.op("EMBEDDING_LOOKUP", [places, cases.constant(rows, quant)], dtype=DType.FLOAT32)
    elif name == "conv_int":
        quant = Quantization.per_tensor(0.01)
        data = cases.data(DType.INT16, (1, 9, 8, 3), quant)
        weights = cases.constant(cases.values(DType.INT8, (1, 3, 3, 3)), quant)
        attrs = depthwise_attrs("SAME", 1, 1, 1)
        cases.op("DEPTHWISE_CONV_2D", [data, weights], attrs, quant=quant)
    elif name == "matmul_bf16":
        x, y = (cases.data(DType.FLOAT32, (96, 96)) for _ in range(2))
        cases.op("BATCH_MATMUL", [x, y], BatchMatMulAttrs())
    elif name == "softmax_q16":
        data = cases.data(DType.INT16, (2, 9), Quantization.per_tensor(0.01))
        unit = Quantization.per_tensor(1 / 32768)
        cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=unit)
    elif name == "lut_pairs":
        pair = [cases.data(DType.INT8, (2, 9)) for _ in range(2)]
        cases.op("DIV", pair, quant=Quantization.per_tensor(0.1))
    elif name == "matmul_hybrid":
        weights = cases.constant(np.ones((2, 5, 3), np.int8), Quantization.per_tensor(0.1))
        cases.op("BATCH_MATMUL", [cases.data(DType.FLOAT32, (2, 4, 5)), weights])
    elif name == "slice_at":
        starts, ends = (cases.given(np.array((0, 1), np.int32)) for _ in range(2))
        steps = cases.constant(np.ones(2, np.int32))
        inputs = [cases.data(DType.FLOAT32, (3, 5)), starts, ends, steps]
        cases.op("STRIDED_SLICE", inputs, StridedSliceAttrs(1, 1, shrink_axis_mask=2))
    elif name == "segment_reduce":
        ids = cases.constant(np.array((0, 0, 1), np.int32))
        cases.op("SEGMENT_SUM", [cases.data(DType.FLOAT32, (3, 5)), ids])
    return cases.graph()


def halves(name: str) -> Graph:
    cases = Cases()
    cases.op("CAST", [cases.data(DType.FLOAT32, (3, 5))], dtype=DType.FLOAT16)
    return cases.graph()


def norms(name: str) -> Graph:
    cases = Cases()
    if name == "l2_norm_q8":
        unit = Quantization.per_tensor(1 / 128)
        cases.op("L2_NORMALIZATION", [cases.data(DType.INT8, (3, 9), QUANT)], quant=unit)
    elif name.startswith("instance"):
        lists = [cases.constant(np.ones(5, np.float32)) for _ in range(2)]
        cases.op("INSTANCE_NORM", [cases.data(DType.FLOAT32, (1, 3, 4, 5)), *lists])
    else:
        cases.op("LOCAL_RESPONSE_NORMALIZATION", [cases.data(DType.FLOAT32, (3, 9))])
    return cases.graph()


def rows_of_int8(name: str) -> Graph:
    cases = Cases()
    pair = [cases.data(DType.INT8, shape) for shape in ((4, 9), (5, 9))]
    cases.op("FULLY_CONNECTED", pair, FullyConnectedAttrs(), quant=QUANT)
    return cases.graph()


def large_images(name: str) -> Graph:
    cases = Cases()
    weights = cases.constant(np.ones((4, 1, 1, 64), np.int8), Quantization.per_tensor(0.1))
    inputs = [cases.data(DType.FLOAT32, (1, 32, 32, 64)), weights]
    cases.op("CONV_2D", inputs, conv2d_attrs("SAME", 1, 1))
    return cases.graph()


def recurrent(name: str) -> Graph:
    if name == "svdf_f32":
        return svdf_graph((1, 4, 6, 2, 3), DType.FLOAT32)
    if name == "svdf_hybrid":
        return svdf_graph((1, 4, 6, 2, 3), DType.FLOAT32, weights=DType.INT8)
    if name == "rnn_hybrid":
        return pair_graph(Pair(weights=DType.INT8))
    return lstm_graph(Lstm(weights=DType.INT8))


def buckets(name: str) -> Graph:
    cases = Cases()
    attrs = BucketizeAttrs(tuple(map(float, range(100))))
    cases.op("BUCKETIZE", [cases.data(DType.FLOAT32, (9,))], attrs, dtype=DType.INT32)
    return cases.graph()


def of_mediapipe(name: str) -> Graph:
    found = {"argmax_pool": "pool-halves", "max_unpool": "unpool", "transform_image": "transform"}
    return MEDIAPIPE[found[name]]


def of_decoders(name: str) -> Graph:
    return attention_forms().graph()


def wide_sums(name: str) -> Graph:
    cases = Cases()
    axes = cases.constant(np.array([1], np.int32))
    cases.op("SUM", [cases.data(DType.INT64, (3, 5)), axes], ReducerAttrs(keep_dims=False))
    return cases.graph()


def integer_sums(name: str) -> Graph:
    cases = Cases()
    add_product(cases, (6, 300, 24), DType.UINT8, DType.INT8, 0)
    return cases.graph()


def scatters(name: str) -> Graph:
    cases = Cases()
    vectors(cases, DType.FLOAT32, "add")
    elements(cases, DType.FLOAT32, "add")
    return cases.graph()


def patches(name: str) -> Graph:
    cases = Cases()
    images(cases)
    return cases.graph()


def planes(name: str) -> Graph:
    cases = Cases()
    attrs = pool_attrs("SAME", 2, 2, 3, 3)
    cases.op("MAX_POOL_2D", [cases.data(DType.FLOAT32, (3, 9, 40, 1))], attrs)
    return cases.graph()


def bounded(graph: Graph) -> Graph:
    """A graph over tensors with room for every run."""
    table = SizeTable()
    settle_sizes(graph, table)
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    return bounded_partition(whole, table, 1 << 20).graph()


@cache
def _counted() -> Graph:
    net = Net()
    outputs = [*numbers(net), *movements(net), *detections(net), *distinct(net)]
    return bounded(net.b.output(*outputs, *sorted_distinct(net)).build())


def counted(name: str) -> Graph:
    """Operators over rows that a run counts."""
    return _counted()


def of_turns(name: str) -> Graph:
    b = builder()
    given = [b.input("flag", DType.BOOL, ()), b.input("turns", DType.INT64, ())]
    return b.output(b.op(TURNS, given, TurnsAttrs(1 << 40), dtype=DType.BOOL)).build()


def of_boxes(name: str) -> Graph:
    return bounded(detector())


def refused_branch(_: str) -> Graph:
    graph = choice(3, 5).main
    graph.inputs[1].shape = (3,)
    fix_shapes(graph, DEFAULT_LIMITS)
    return graph


OWN: dict[str, Callable[[str], Graph]] = {
    "group_attention": of_decoders,
    "group_attention_append": of_decoders,
    "group_attention_packed": of_decoders,
    "reduce_wide": wide_sums,
    "cross_rows_q8": lambda name: cross_sums().graph(),
    "pack_sums_q8": lambda name: cross_sums().graph(),
    "stored_image": integer_sums,
    "stored_rows": lambda name: cross_sums().graph(),
    "quantize_rows": lambda name: rows_of_scales(DType.INT8).graph(),
    "softmax_columns": lambda name: fused(along((2, 3, 16), 1)),
    "local_response_columns": lambda name: fused(along((2, 3, 16), 1, attrs=NORMS[0])),
    "bucketize": buckets,
    "cast": halves,
    "bbox_transform": regions,
    "heatmap_max_keypoint": regions,
    "roi_align": regions,
    "roi_pool": regions,
    "hashtable_lookup": regions,
    "copy_reversed": reversed_rows,
    "cumsum": own,
    "embedding_lookup": own,
    "conv_groups_f32": lambda name: network_of_groups(FEW_CHANNELS["fours"])[0],
    "conv_groups_q8": lambda name: groups_of_bytes(GROUPS_OF_BYTES)[0],
    "conv_int": own,
    "pack_conv_q8": rows_of_int8,
    "pack_winograd_f32": lambda name: layers(),
    "matmul_bf16": own,
    "matmul_f64": lambda name: products_of_doubles().graph(),
    "softmax_q16": own,
    "lut_pairs": own,
    "segment_reduce": own,
    "slice_at": own,
    "matmul_hybrid": own,
    "rnn_hybrid": recurrent,
    "hybrid_ranges": large_images,
    "hybrid_parts": large_images,
    "svdf_f32": recurrent,
    "svdf_hybrid": recurrent,
    "lstm_hybrid": recurrent,
    "l2_norm_q8": norms,
    "instance_moments": norms,
    "instance_factors": norms,
    "instance_norm": norms,
    "local_response_norm": norms,
    "gather_windows": joined_windows,
    "scatter_windows": joined_windows,
    "reduce_window": joined_windows,
    "col2im": patches,
    "pool_pixels": planes,
    "scatter_vectors": scatters,
    "scatter_elements": scatters,
    "recurrent_bytes": lambda name: DYNAMIC["zero points that int8 does not absorb"]()[0],
    "recurrent_stored": lambda name: dynamic_graph()[0],
    "recurrent_together": lambda name: dynamic_graph(lengths=(4, 2))[0],
    "recurrent_f32": lambda name: layer_graph(Layer("GRU"))[0],
    "argmax_pool": of_mediapipe,
    "max_unpool": of_mediapipe,
    "transform_image": of_mediapipe,
    "refuse": refused_branch,
    "bounded_size": counted,
    "bounded_size_list": counted,
    "bounded_where": counted,
    "bounded_concatenation": counted,
    "bounded_tail": counted,
    "bounded_turns": of_turns,
    "bounded_suppression": counted,
    "box_limit": of_boxes,
    "proposals": of_boxes,
    "bounded_unique": counted,
    "bounded_unique_rising": counted,
}


def test_every_kernel_has_a_row() -> None:
    headers = (path.read_text(encoding="utf-8") for path in KERNELS_DIR.glob("*.h"))
    kernels = {name for text in headers for name in _STRUCT.findall(text)}
    missing = kernels - {row.name for row in VARIANTS.values()}
    assert not missing, (
        "add rows to circlet/backends/cpu/tuning/variants.py, see docs/adding-a-kernel.md"
    )


@pytest.mark.parametrize("row", VARIANTS.values(), ids=VARIANTS)
def test_a_row_names_what_exists(row: Variant) -> None:
    text = (KERNELS_DIR / f"{row.header}").read_text(encoding="utf-8")
    assert re.search(rf"\b{row.name}\(", text), row.header
    assert (ROOT / "tests" / row.test).exists()


@pytest.mark.parametrize("row", [r for r in VARIANTS.values() if r.network], ids=lambda r: r.name)
def test_a_row_is_met_in_the_network_that_measures_it(row: Variant) -> None:
    found, settings = compiled(row.network, row.target, row.precision)
    assert row.name in found
    asked = {q.name.split()[0] for q in settings.knobs.values()}
    assert ("tile" in row.knobs) == (row.name in asked)


@pytest.mark.parametrize("name", OWN)
def test_a_row_without_a_network_is_met_elsewhere(name: str) -> None:
    graph = OWN[name](name)
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    row = VARIANTS[name]
    target = parse_target(row.target)
    assert name in functions(compile_partition(whole, target, 1, precision=row.precision))


def test_rows_without_a_network_are_those_that_are_met_elsewhere() -> None:
    unmeasured = {row.name for row in VARIANTS.values() if not row.network}
    assert unmeasured == {*OWN, "user_op"}  # users bring the C of the last; see its own tests


@corpora.each_model()
def test_every_question_is_about_a_row_that_asks_it(name: str) -> None:
    try:
        _, settings = compiled(f"models/{name}", "x86_64+v4+avx512vnni", "f32")
    except CircletError as error:
        pytest.skip(str(error.code))
    for knob in settings.knobs.values():
        workload = knob.name.split()[0]
        if workload in _METHODS:
            assert workload in VARIANTS["conv_f32"].knobs
        else:
            assert "tile" in VARIANTS[workload].knobs
        if workload == "method":
            assert all("method" in VARIANTS[label].knobs for label in knob.labels)


def test_answers_stay_in_their_class() -> None:
    assert stays_in_class("conv_f32", "winograd_f32")
    assert stays_in_class("winograd_f32", "conv_f32")
    assert not stays_in_class("conv_f32", "conv_bf16")
    assert stays_in_class("8x2", "4x4")
    assert max(numerics.bound for numerics in Numerics if numerics is not Numerics.BF16) <= 1e-5
