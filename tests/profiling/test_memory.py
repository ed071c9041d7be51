"""Memory: planned to the byte, told of the user's tensors, held to budgets, and measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.profiled import PlannedBlock
from circlet.errors import LimitError
from circlet.formats import save
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.opdef import NoAttrs
from circlet.options import Options
from circlet.profiling.budget import check_budget, suggestions
from circlet.profiling.memory import MemoryReport, plan_memory
from circlet.profiling.phases import measure_phases
from circlet.sample import Sample
from tests.cli.call import as_json, circlet
from tests.corpora import corpus


def alive_at_most(report: MemoryReport) -> int:
    """The most bytes alive in one step, counted block by block and step by step."""
    (part,) = report.partitions
    return max(
        sum(b.size_bytes for b in part.map.blocks if b.first <= step <= b.last)
        for step in range(len(part.map.steps) + 1)
    )


def overlap(one: PlannedBlock, other: PlannedBlock) -> bool:
    together = one.first <= other.last and other.first <= one.last
    apart = one.offset + one.size_bytes <= other.offset
    return together and not (apart or other.offset + other.size_bytes <= one.offset)


@pytest.mark.smoke
@pytest.mark.parametrize("level", ["O0", "O2", "Os"])
@pytest.mark.parametrize("network", ["int8", "float"])
def test_the_plan_is_exact(network: str, level: str) -> None:
    report = plan_memory(Sample(network).model_path, Options(level=level), threads=2)
    (part,) = report.partitions
    blocks = part.map.blocks
    assert part.arena_bytes == max(b.offset + b.size_bytes for b in blocks)
    assert part.lower_bound_bytes == alive_at_most(report)
    assert part.gap_bytes == part.arena_bytes - part.lower_bound_bytes >= 0
    assert sum(t.size_bytes for t in part.alive) == part.lower_bound_bytes
    pairs = [(a, b) for n, a in enumerate(blocks) for b in blocks[:n]]
    assert not any(overlap(*pair) for pair in pairs)
    assert report.scratch_bytes == 2 * part.scratch_bytes
    item = 1 if network == "int8" else 4
    assert report.values_bytes == item * (8 * 8 + 10)  # a picture in, ten scores out
    assert report.planned_bytes == part.arena_bytes + report.scratch_bytes + report.values_bytes


def test_tensors_at_the_peak_bear_the_names_of_the_file() -> None:
    (part,) = plan_memory(Sample("int8").model_path, Options(), 1).partitions
    assert part.peak_op == "depthwise"
    assert {tensor.name: tensor.made_by for tensor in part.alive} == {
        "conv": "conv",
        "depthwise": "depthwise",
    }


def test_what_a_budget_advises_is_what_happens() -> None:
    model = corpus("models/mobilenet_v2_1.0_224_quant.tflite")
    options = Options()
    plan = plan_memory(model, options, threads=2)
    found = {one.text: one for one in suggestions(model, options, plan, 800_000)}
    level = next(one for text, one in found.items() if text.startswith("level Os (-O Os)"))
    smaller = plan_memory(model, options._replace(level="Os"), threads=2)
    assert level.planned_bytes == smaller.planned_bytes < plan.planned_bytes and level.fits
    assert not check_budget(model, options, plan, plan.planned_bytes)
    with pytest.raises(LimitError, match="level Os"):
        check_budget(model, options, plan, plan.planned_bytes - 1)


def test_a_split_is_a_bound_on_what_parts_can_reach() -> None:
    model = Sample("float").model_path
    plan = plan_memory(model, Options(), 1)
    (split,) = (one for one in suggestions(model, Options(), plan, 8192) if one.kind == "split")
    blocks = plan.partitions[0].map.blocks
    halved = [
        replace(b, size_bytes=b.size_bytes // 2) if b.name in ("conv", "pointwise") else b
        for b in blocks
    ]
    steps = range(max(b.last for b in blocks) + 1)
    least = max(sum(b.size_bytes for b in halved if b.first <= s <= b.last) for s in steps)
    assert "conv in 2, pointwise in 2" in split.text
    assert split.planned_bytes == least + plan.scratch_bytes + plan.values_bytes and split.fits


def test_a_process_tells_its_memory_by_phase(tmp_path: Path) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 1 << 22))
    model = b.output(b.op("RELU", [x], NoAttrs(), name="y")).model()
    path = tmp_path / "large.tflite"
    save(model, path)
    found = measure_phases(path, Options(), 1, seconds=0.02)
    assert [p.phase for p in found.phases] == ["start", "load", "compile", "first run", "run"]
    marks = [p.hwm_bytes for p in found.phases]
    # The kernel counts pages per CPU first, so that a later mark may be some pages lower.
    assert all(later > 0.99 * mark for mark, later in pairwise(marks))
    assert all(p.pss_bytes <= p.rss_bytes for p in found.phases)
    compiled, first = found.phases[2], found.phases[3]
    assert first.rss_bytes - found.phases[1].rss_bytes >= 2 * (4 << 22)  # both arrays are there
    assert found.used_peak_bytes >= 2 * (4 << 22) and compiled.ms > 0


def test_weights_that_are_loaded_are_in_memory() -> None:
    found = measure_phases(Sample("int8").model_path, Options(), 1, seconds=0.02)
    packed = plan_memory(Sample("int8").model_path, Options(), 1).packed_bytes
    assert found.weights_bytes == found.resident_bytes == packed


def test_the_command_prints_the_plan_and_refuses_beyond_a_budget() -> None:
    model = Sample("int8").model_path
    shown = circlet("memory", model, "--threads", 1, "--no-process").output
    for text in ("a run needs", "the peak is at depthwise", "lower bound", "weights:"):
        assert text in shown
    assert circlet("memory", model, "--no-process", "--budget", "1M").exit_code == 0
    error = as_json("memory", model, "--budget", "1k", code=1)["error"]
    assert error["code"] == "E-LIMIT" and "the budget is 1,024" in error["why"]
    assert circlet("memory", model, "--budget", "no size").exit_code == 2


def test_the_command_answers_machines() -> None:
    found = as_json("memory", Sample("int8").model_path, "--level", "s", "--no-process", "--advise")
    plan = found["plan"]
    assert plan["level"] == "Os" and found["process"] is None
    assert found["planned_bytes"] > found["arena_bytes"] > 0
    (part,) = plan["partitions"]
    assert len(part["map"]["blocks"]) > 2
    assert np.all([block["size_bytes"] > 0 for block in part["alive"]])
