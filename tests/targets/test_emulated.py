"""Targets give right answers: compiled here, run under qemu on the processor they are for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest

from bench.emulated.emulator import (
    MACHINES,
    EmulationError,
    Machine,
    available,
    build_host,
    run_emulated,
)
from circlet.artifact.file import Artifact, open_artifact
from circlet.compiler.compile import compile_model
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.quotient import DivAttrs
from circlet.ops.requantization import EVEN
from circlet.ops.softmax import SoftmaxAttrs
from circlet.options import Options
from tests.backends.cpu.cases import QUANT, Cases, Network
from tests.backends.cpu.passes.test_by_planes import POOLS, pooled, resized
from tests.backends.cpu.passes.test_fuse_columns import NORMS, along
from tests.backends.cpu.q8_graphs import conv_graph, rounding_to_even, rows_graph
from tests.backends.cpu.test_bf16 import dense, sums_of
from tests.backends.cpu.test_block_bits import all_forms as bit_forms
from tests.backends.cpu.test_block_bits import assert_rounded
from tests.backends.cpu.test_cross_sums import cross_sums
from tests.backends.cpu.test_elementwise import pairs
from tests.backends.cpu.test_float_conv import _values as values
from tests.backends.cpu.test_float_depthwise import repeated
from tests.backends.cpu.test_float_groups import CASES as FEW_CHANNELS
from tests.backends.cpu.test_float_groups import network
from tests.backends.cpu.test_float_winograd import grouped
from tests.backends.cpu.test_fully_connected_block_bits import weights as block_weights
from tests.backends.cpu.test_fused_rows import KEEP, layer_norm
from tests.backends.cpu.test_gather import orders
from tests.backends.cpu.test_group_attention import all_forms as attention_forms
from tests.backends.cpu.test_integer_sums import sums as integer_sums
from tests.backends.cpu.test_matmul_f64 import products_of_doubles
from tests.backends.cpu.test_q8_arm import near_half
from tests.backends.cpu.test_q8_conv import CASES
from tests.backends.cpu.test_q8_depthwise import CASES as DEPTHWISE
from tests.backends.cpu.test_q8_fully_connected import CASES as ROWS
from tests.backends.cpu.test_q8_groups import CASES as GROUPS_OF_BYTES
from tests.backends.cpu.test_q8_groups import network as groups_of_bytes
from tests.backends.cpu.test_quantize import rows_of_scales
from tests.backends.cpu.test_wide_types import arithmetic, reductions
from tests.recurrent_layers import DYNAMIC
from tests.sanitize.computed import NETWORKS as COMPUTED
from tests.sanitize.computed import computed_network
from tests.targets.networks import NETWORKS, model_path
from tests.targets.questions import assert_same, question

pytestmark = pytest.mark.slow
Hosts = dict[str, Path]
ARM = [machine for machine in MACHINES if machine.arch == "aarch64"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    """The program that runs parts, for each architecture that can be emulated."""
    folder = tmp_path_factory.mktemp("hosts")
    arches = dict.fromkeys(machine.arch for machine in available())
    return {arch: build_host(arch, folder / arch) for arch in arches}


@lru_cache(maxsize=1)
def _artifact(path: Path) -> Artifact:
    """One artifact with the code of every target."""
    targets = ",".join(machine.target for machine in MACHINES)
    return open_artifact(compile_model(path, Options(("cpu",), strict=True, target=targets)))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.target)
@pytest.mark.parametrize("network", NETWORKS)
def test_an_emulated_target_answers_as_numpy_does(
    network: str, machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    path = model_path(network)
    if machine.missing:
        pytest.skip(machine.missing)
    inputs, wanted = question(path)
    host, folder = hosts[machine.arch], tmp_path / "parts"
    assert_same(run_emulated(_artifact(path), machine, host, inputs, folder, threads=2), wanted)


def _bytes(is_even: bool) -> Network:
    """Runs of all lengths, odd pixels, both types of bytes, zero points of weights; sums that are
    rounded as LiteRT and as ONNX Runtime round them."""
    graph, inputs = conv_graph([*CASES, *DEPTHWISE], np.random.default_rng(7))
    return rounding_to_even(graph) if is_even else graph, inputs


def _next_to_a_half(step: float) -> Network:
    """Products that few factors have."""
    return near_half(step), [np.arange(-128, 128, dtype=np.int8).reshape(-1, 1)]


def _tables_and_stacks() -> Cases:
    """Look-ups of every value, rows of softmax, and matrices in any order."""
    cases, shares = Cases(), Quantization.per_tensor(1 / 256, -128)
    every = np.tile(np.arange(-128, 128, dtype=np.int8), 2)
    for count in (7, 21, 500):
        cases.op("LOGISTIC", [cases.given(every[:count], QUANT)], quant=shares)
    for count in (10, 97):
        data = cases.data(DType.INT8, (5, count))
        cases.op("SOFTMAX", [data], SoftmaxAttrs(1.0), quant=shares)
    for adj_x, adj_y in ((False, False), (True, True)):
        first = (3, 18, 7) if adj_x else (3, 7, 18)
        for columns in (1, 37):
            second = (3, columns, 18) if adj_y else (3, 18, columns)
            pair = [cases.data(DType.INT8, shape) for shape in (first, second)]
            attrs = BatchMatMulAttrs(adj_x, adj_y)
            for policy in (None, EVEN):
                cases.op("BATCH_MATMUL", pair, attrs, quant=Quantization.per_tensor(0.7, 1))
                cases.builder.graph.ops[-1].requantization = policy
    return cases


GRAPHS: dict[str, Callable[[], Network | Cases]] = {
    "bytes": lambda: _bytes(is_even=False),
    "bytes, rounded to even": lambda: _bytes(is_even=True),
    "rows of bytes": lambda: rows_graph(ROWS, np.random.default_rng(8)),
    "products next to a half": lambda: _next_to_a_half(48.0),
    "products that miss a half": lambda: _next_to_a_half(49.0),
    "sums less zero points of a run": integer_sums,
    "sums of two operands of a run": cross_sums,
    "products of doubles": products_of_doubles,
    "tables and stacks of bytes": _tables_and_stacks,
    "signed rows of scales": lambda: rows_of_scales(DType.INT8),
    "unsigned rows of scales": lambda: rows_of_scales(DType.UINT8),
    "softmax down columns": lambda: along((2, 21, 9, 15), 1),
    "groups within registers": lambda: network(
        FEW_CHANNELS["fours, a last register that overlaps"]
    ),
    "groups of bytes": lambda: groups_of_bytes(GROUPS_OF_BYTES),
    "several filters for each channel": repeated,
    "groups by patches": lambda: grouped("groups_of_last_vectors", adds=True),
    "a step of sequences over bytes": DYNAMIC["more sequences than a tile"],
    "zero points of sequences": DYNAMIC["zero points that int8 does not absorb"],
    "norms down columns": lambda: along((2, 21, 9, 15), 1, attrs=NORMS[0]),
    "doubled planes": lambda: resized((2, 3, 5, 37), (10, 74), is_turned=True),
    **{
        f"planes {name} in {kind}": partial(pooled, kind, *POOLS[name])
        for kind, name in (
            ("MAX_POOL_2D", "over borders, in steps of two"),
            ("AVERAGE_POOL_2D", "over borders, side by side"),
            ("AVERAGE_POOL_2D", "in steps of two, where they are"),
        )
    },
    "rows read over and over": pairs,
    "the largest floats": lambda: orders(DType.FLOAT32),
    "the largest of int64": lambda: orders(DType.INT64),
    "doubles": arithmetic,
    "reductions of doubles": lambda: reductions(DType.FLOAT64),
    "reductions of int64": lambda: reductions(DType.INT64),
    **{f"computed {name}": partial(computed_network, name) for name in COMPUTED},
}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.target)
@pytest.mark.parametrize("name", GRAPHS)
def test_operators_are_those_of_their_records_on_emulated_targets(
    name: str, machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    made = GRAPHS[name]()
    graph, inputs = (made.graph(), made.inputs) if isinstance(made, Cases) else made
    got = _answers(graph, inputs, machine, hosts, tmp_path / "parts")
    assert_same(got, evaluate_graph(graph, inputs))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.target)
def test_rows_are_normalised_on_emulated_targets(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    """Rows of whole steps and of what is left of them; one kernel stores powers, and reads them."""
    if machine.missing:
        pytest.skip(machine.missing)
    cases = Cases()
    for count in (16, 70, 101):
        x = cases.data(DType.FLOAT32, (3, count))
        cases.builder.output(layer_norm(cases, x))
        power = cases.op("EXP", [cases.data(DType.FLOAT32, (3, count))])
        total = cases.op("SUM", [power, cases.constant(np.array([1], np.int32))], KEEP)
        cases.op("DIV", [power, total], DivAttrs())
    graph = cases.graph()
    got = _answers(graph, cases.inputs, machine, hosts, tmp_path / "parts")
    for own, wanted in zip(got, evaluate_graph(graph, cases.inputs), strict=True):
        assert np.abs(own - wanted).max() <= 2e-6 * max(1, np.abs(wanted).max())


@pytest.mark.parametrize("machine", ARM, ids=lambda machine: machine.target)
def test_floats_meet_four_bit_weights_on_emulated_arm(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    b = builder()
    weights = b.constant("w", block_weights(202, 1024, 32))
    x = b.input("x", DType.FLOAT32, (2, 1024))
    graph = b.output(b.op("FULLY_CONNECTED", [x, weights], FullyConnectedAttrs())).build()
    inputs = [np.random.default_rng(2).standard_normal((2, 1024)).astype(np.float32)]
    (wanted,) = evaluate_graph(graph, inputs)
    (got,) = _answers(graph, inputs, machine, hosts, tmp_path / "parts")
    assert np.abs(got - wanted).max() <= 2e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("machine", ARM, ids=lambda machine: machine.target)
@pytest.mark.parametrize("forms", [bit_forms, attention_forms])
def test_decoders_are_right_on_emulated_arm(
    forms: Callable[[], Cases], machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    """Products of stored weights of 4 and 8 bits, and attention of groups."""
    if machine.missing:
        pytest.skip(machine.missing)
    cases = forms()
    graph = cases.graph()
    got = _answers(graph, cases.inputs, machine, hosts, tmp_path / "parts")
    for own, wanted in zip(got, evaluate_graph(graph, cases.inputs), strict=True):
        assert np.abs(own - wanted).max() <= 5e-6 * max(1, np.abs(wanted).max())


@pytest.mark.parametrize("machine", ARM, ids=lambda machine: machine.target)
def test_rounded_inputs_are_right_on_emulated_arm(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    cases = bit_forms(accuracy_level=4)
    graph = cases.graph()
    got = _answers(graph, cases.inputs, machine, hosts, tmp_path / "parts")
    assert_rounded(graph, cases.inputs, got)


def _answers(
    graph: Graph, inputs: Sequence[np.ndarray], machine: Machine, hosts: Hosts, folder: Path
) -> list[np.ndarray]:
    options = Options(("cpu",), strict=True, target=machine.target)
    artifact = open_artifact(compile_model(Model([graph]), options))
    return run_emulated(artifact, machine, hosts[machine.arch], inputs, folder)


@pytest.mark.parametrize("cpu", ["aarch64", "aarch64+bf16"])
def test_rounded_products_are_those_of_every_target(cpu: str, hosts: Hosts, tmp_path: Path) -> None:
    machine = Machine(cpu, "max")
    if machine.missing:
        pytest.skip(machine.missing)
    graph, x = dense(30, 97, 130), values(3, 30, 97)
    options = Options(("cpu",), strict=True, target=cpu, precision="bf16")
    artifact = open_artifact(compile_model(dumps(Model([graph]), "tflite"), options))
    (got,) = run_emulated(artifact, machine, hosts["aarch64"], [x], tmp_path / "parts")
    np.testing.assert_array_equal(got, sums_of(graph, x))


def test_processors_lack_what_their_target_does_not_name(hosts: Hosts, tmp_path: Path) -> None:
    """Otherwise a baseline that used newer instructions would pass."""
    plain, dotprod = MACHINES[:2]
    if plain.missing:
        pytest.skip(plain.missing)
    path = model_path("int8 sample")
    older = Machine(dotprod.target, plain.cpu)
    with pytest.raises(EmulationError, match="status -4"):
        inputs, _ = question(path)
        run_emulated(_artifact(path), older, hosts[plain.arch], inputs, tmp_path / "parts")
