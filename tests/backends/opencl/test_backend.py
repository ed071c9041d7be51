"""The backend around its kernels: devices, artifacts, observers, timeouts and faults."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from circlet import Session
from circlet.artifact.file import PartitionCode
from circlet.backends.base import Observation, Unavailable
from circlet.backends.opencl import device as devices
from circlet.backends.opencl.backend import OpenClBackend
from circlet.backends.opencl.compile import compile_partition
from circlet.backends.opencl.device import DeviceFacts, choose, chosen_device
from circlet.backends.opencl.runner import OpenClPartition
from circlet.backends.opencl.table import LaunchTable
from circlet.errors import ArtifactError, BackendError, CancelledError, CircletError, DeadlineError
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.options import Options
from circlet.placement.interface import Reason
from circlet.plan.memory import Block
from circlet.plan.partition import Partition, partition
from circlet.plan.validate import validate_plan
from circlet.sample import Sample
from tests.backends.opencl.running import bound, device, job

__all__ = ["device"]

FACTS = DeviceFacts("none", 132, 1024, 48 << 10, True, True, False)
on_device = pytest.mark.usefixtures("device")


def _chain() -> Graph:
    """A product, a chain of elements that something else reads in between, and a reshape."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (4, 8))
    w = b.constant("w", np.linspace(-1, 1, 48, dtype=np.float32).reshape(6, 8))
    product = b.op("FULLY_CONNECTED", [x, w], name="product")
    kept = b.op("TANH", [product], name="kept")
    summed = b.op("ADD", [b.op("ABS", [kept], name="abs"), product], name="summed")
    shape = b.constant("shape", np.array([24], np.int32))
    flat = b.op("RESHAPE", [summed, shape], name="flat")
    return b.output(kept, b.op("NEG", [flat], name="negated")).build()


def _partition() -> Partition:
    graph = _chain()
    (part,) = partition(graph, dict.fromkeys(graph.ops, "opencl"))
    return part


def _named(name: str, platform: str = "Some platform") -> SimpleNamespace:
    return SimpleNamespace(name=name, platform=SimpleNamespace(name=platform))


def test_a_device_is_chosen_by_index_or_by_a_part_of_its_name() -> None:
    found = [_named("First card"), _named("Second card", "Portable")]
    assert choose(found, "1") is found[1]
    assert choose(found, "first") is found[0]
    assert choose(found, "portable") is found[1]
    with pytest.raises(BackendError, match="0 First card") as caught:
        choose(found, "third")
    assert "CIRCLET_OPENCL_DEVICE" in str(caught.value)


def test_without_a_device_the_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_devices", list)
    chosen_device.cache_clear()
    try:
        with pytest.raises(BackendError, match="no OpenCL device"):
            OpenClBackend().diagnose()
        compiler = OpenClBackend().compiler(job())
        assert isinstance(compiler, Unavailable)
        answer = compiler.supports(_chain().ops[0])
        assert isinstance(answer, Reason)
        assert "no OpenCL device" in answer.text
        with pytest.raises(BackendError):
            OpenClBackend().compiler(replace(job(), options=Options(strict=True)))
    finally:
        chosen_device.cache_clear()


def test_pyopencl_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(BackendError, match="pyopencl is not installed"):
        devices._devices()


def test_plans_keep_what_is_alive_apart() -> None:
    made = compile_partition(_partition(), FACTS, job().budget)
    validate_plan(list(made.blocks), made.memory)
    assert {block.name for block in made.blocks} == {"product", "summed"}
    assert [step.kind for step in made.table.steps] == [
        "FULLY_CONNECTED",
        "FUSED_ELEMENTWISE",
        "RESHAPE",
        "NEG",
    ]
    assert not made.table.steps[2].launches  # other sizes of the same elements


def test_launch_tables_are_plain_data_and_checked() -> None:
    made = compile_partition(_partition(), FACTS, job().budget)
    data = json.loads(json.dumps(made.table.as_json()))
    again = LaunchTable.from_json(data)
    assert again.as_json() == made.table.as_json()
    assert again.steps[0].launches[0].arguments == made.table.steps[0].launches[0].arguments
    damaged: tuple[dict[str, Any], ...] = (
        {"arena_bytes": 16},
        {"inputs": 0},
        {"places": []},
        {"places": [["elsewhere", 0, 4]]},
        {"steps": [["ADD", "x", [["k", [999], [64], [64]]], []]]},
        {"steps": [["ADD", "x", [["k", [], [0], None]], []]]},
    )
    for damage in damaged:
        with pytest.raises((ValueError, KeyError, TypeError)):
            LaunchTable.from_json({**data, **damage})


def test_the_source_is_ascii_and_says_nothing_of_fast_maths() -> None:
    made = compile_partition(_partition(), FACTS, job().budget)
    assert made.source.isascii()
    assert "fast" not in made.source
    assert "FP_CONTRACT OFF" in made.source


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, divides_exactly=False), "does not round float quotients exactly"),
        (replace(FACTS, has_double=False), "no float64"),
    ],
)
def test_what_a_device_cannot_do_exactly_is_refused(facts: DeviceFacts, reason: str) -> None:
    from circlet.backends.opencl.partition_compiler import OpenClCompiler
    from circlet.formats import load

    compiler = OpenClCompiler(job(), facts)
    graph = load(Sample("int8").model_path).main
    b = builder()
    quant = graph.inputs[0].quant
    x = b.input("x", DType.FLOAT32, (4,))
    b.output(b.op("QUANTIZE", [x], dtype=DType.INT8, quant=quant))
    ops = [*graph.ops, *b.build().ops]
    answers = [compiler.supports(op) for op in ops]
    assert any(isinstance(answer, Reason) and reason in answer.text for answer in answers)


@on_device
@pytest.mark.smoke
@pytest.mark.parametrize("network", ["int8", "float"])
def test_whole_networks_run_on_the_device_and_from_the_cache(network: str, tmp_path: Path) -> None:
    sample = Sample(network)
    (wanted,) = Session(sample.model_path, backends=("reference",)).run([sample.image()]).values()
    for how in ("compile", "cache"):
        session = Session(sample.model_path, backends=("opencl",), strict=True)
        assert how in session.opened.seconds
        (got,) = session.run([sample.image()]).values()
        if network == "int8":
            np.testing.assert_array_equal(got, wanted)
        else:
            np.testing.assert_allclose(got, wanted, atol=1e-6)


@on_device
@pytest.mark.parametrize("shares_memory", [True, False])
def test_bound_arrays_may_be_replaced(shares_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = chosen_device().facts
    if shares_memory and not facts.shares_memory:
        pytest.skip("the device has memory of its own")
    facts = replace(facts, shares_memory=shares_memory)
    monkeypatch.setattr(chosen_device(), "facts", facts)
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    runner, (kept, _) = bound(_chain(), [x])
    runner.run()
    other, elsewhere = -x, np.empty_like(kept)
    runner.set_input(0, other)
    runner.set_output(0, elsewhere)
    first = kept.copy()
    runner.run()
    np.testing.assert_array_equal(kept, first)
    np.testing.assert_array_equal(elsewhere, -first)


@on_device
def test_observers_are_told_of_every_step() -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    runner, (kept, negated) = bound(_chain(), [x])
    told: list[Observation] = []
    runner.observe(told.append)
    runner.run()
    assert [seen.kind for seen in told] == [
        "FULLY_CONNECTED",
        "FUSED_ELEMENTWISE",
        "RESHAPE",
        "NEG",
    ]
    assert told[1].name == "kept+abs+summed"
    assert {value.name for value in told[1].values} == {"kept", "summed"}
    assert all(seen.ns > 0 for seen in told if seen.kind != "RESHAPE")
    runner.observe(None)
    runner.run()
    assert len(told) == 4
    assert kept.shape == (4, 6)
    assert negated.shape == (24,)


@on_device
def test_a_run_ends_at_its_timeout_and_where_it_is_cancelled() -> None:
    x = np.zeros((4, 8), np.float32)
    runner, _ = bound(_chain(), [x])
    with pytest.raises(DeadlineError):
        runner.run(timeout_ns=1)

    def cancel(observation: Observation) -> None:
        runner.cancel()

    runner.observe(cancel)
    with pytest.raises(CancelledError):
        runner.run()
    runner.observe(None)
    runner.run()


@on_device
def test_a_kernel_that_the_device_refuses_is_a_coded_error() -> None:
    with pytest.raises(BackendError, match="refuses a kernel") as caught:
        chosen_device().build("__kernel void broken( { }")
    assert caught.value.code == "E-BACKEND"


@on_device
def test_damaged_artifacts_are_refused() -> None:
    good = compile_partition(_partition(), chosen_device().facts, job().budget)
    table = json.dumps(good.table.as_json()).encode()
    source = good.source.encode()
    for sections, constants in (
        ({"source": (source,), "table": (b"{",)}, good.constants),
        ({"source": (source,)}, good.constants),
        ({"source": (source,), "table": (table,)}, b""),
    ):
        with pytest.raises(ArtifactError):
            OpenClPartition(PartitionCode("opencl", constants, sections))
    whole = OpenClPartition(
        PartitionCode("opencl", good.constants, {"source": (source,), "table": (table,)})
    )
    with pytest.raises(CircletError):
        whole.bind([], [], 1)


@on_device
def test_other_sizes_are_compiled_anew() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 4))
    session = Session(
        b.output(b.op("TANH", [x], name="y")).model(), backends=("opencl",), cache=False
    )
    for rows in (1, 5):
        given = np.full((rows, 4), 0.5, np.float32)
        (got,) = session.run([given]).values()
        np.testing.assert_allclose(got, np.tanh(given), rtol=1e-6)


def test_blocks_of_the_arena_are_aligned() -> None:
    made = compile_partition(_partition(), FACTS, job().budget)
    assert all(isinstance(block, Block) and block.size_bytes % 512 == 0 for block in made.blocks)
    assert all(offset % 512 == 0 for offset in made.memory.offsets)


@on_device
def test_programs_belong_to_the_device_that_built_them() -> None:
    from circlet.backends.opencl.device import chosen_device

    b = builder()
    model = b.output(b.op("NEG", [b.input("x", DType.FLOAT32, (3,))])).model()
    for _ in range(2):
        session = Session(model, backends=("opencl",), strict=True)
        (got,) = session.run([np.ones(3, np.float32)]).values()
        assert got.tolist() == [-1, -1, -1]
        chosen_device.cache_clear()
