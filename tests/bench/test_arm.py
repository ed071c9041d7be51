"""Counting what emulated Arm processors execute, and the page that tells of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench import arm
from bench.arm_result import Counted, Row, page
from bench.emulated.arm import CPUS
from bench.emulated.counting import Counts, blocks_of, build_plugin, counting, counts_of_runs
from bench.emulated.emulator import EmulationError, run
from bench.emulated.litert import unpacked
from circlet.backends.cpu.c_compiler import find_compiler
from circlet.sample import Sample

V8 = CPUS[0]
# Four instructions a turn, of which one loads 16 bytes and one stores 8.
PROGRAM = """
#include <unistd.h>
#include <sys/syscall.h>
#define MARK 0x6369726c
static long memory[4];
static void turns(long count) {
    __asm__ volatile("1: ldp x1, x2, [%1]\\n str x1, [%1, #16]\\n subs %0, %0, #1\\n b.ne 1b"
                     : "+r"(count) : "r"(memory) : "x1", "x2", "memory", "cc");
}
int main(void) {
    syscall(SYS_getppid, MARK);
    turns(1000);
    syscall(SYS_getppid, MARK);
    turns(3000);
    syscall(SYS_getppid, MARK);
}
"""


def need_qemu() -> None:
    if V8.machine.missing:
        pytest.skip(V8.machine.missing)


@pytest.mark.slow
def test_what_a_program_executes_is_counted_exactly(tmp_path: Path) -> None:
    need_qemu()
    source, program = tmp_path / "turns.c", tmp_path / "turns"
    source.write_text(PROGRAM)
    compiler = [*find_compiler().command, "-target", "aarch64-linux-gnu.2.34", "-O1"]
    subprocess.run([*compiler, str(source), "-o", str(program)], check=True)
    plugin, to = build_plugin("qemu-aarch64", tmp_path / "count.so"), tmp_path / "counts"
    run([*V8.machine.command(), *counting(plugin, to, blocks=True), str(program)])
    first, second = counts_of_runs(to)
    assert abs(second.instructions - first.instructions - 2000 * 4) < 8  # what leads to the loop
    assert second.loaded - first.loaded == 2000 * 16
    assert second.stored - first.stored == 2000 * 8
    loops = blocks_of(to)[:2]  # two copies; the first turn may belong to the block before
    assert 3990 * 4 < sum(block.executed for block in loops) <= 4000 * 4


@pytest.mark.slow
def test_a_network_is_counted_alike_every_time_and_right(tmp_path: Path) -> None:
    need_qemu()
    path = Sample("int8").model_path
    bench = arm.prepared(tmp_path, None, with_litert=False)
    artifact, inputs = arm.compiled(path, [V8]), [Sample("int8").image()]
    wanted = Sample("int8").image().shape
    assert wanted == tuple(artifact.metadata["values"][0]["shape"])
    found = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(arm.run_ours(bench, artifact, V8, inputs, folder))
    (first, outputs), (second, _) = found
    assert first.loaded > 0
    assert first == second
    assert int(np.argmax(outputs[0])) == 5
    rows = arm.steps(bench, path, V8)
    inside = sum(counts.instructions for counts, *_ in rows)
    assert 0.5 * first.instructions < inside < 2 * first.instructions + 10_000


def test_runs_are_what_lies_between_marks(tmp_path: Path) -> None:
    file = tmp_path / "counts"
    file.write_text("mark 10 1 2\nmark 110 31 42\nmark 160 41 47\nblock ff0 4 5\n")
    assert counts_of_runs(file) == [Counts(100, 30, 40), Counts(50, 10, 5)]
    file.write_text("mark 10 1 2\n")
    with pytest.raises(EmulationError, match="no run"):
        counts_of_runs(file)


def test_the_page_has_means_and_what_is_missing() -> None:
    rows = [
        Row("one", "fp32", "v8.0", Counts(100, 50, 50), Counts(200, 50, 50)),
        Row("two", "fp32", "v8.0", Counts(100, 50, 50), Counts(800, 350, 50)),
        Row("three", "integer", "v8.0", Counts(100, 1, 1), Counts(90, 1, 1), part=0.9),
        Row("four", "integer", "v8.0", Counts(100, 1, 1), why="LiteRT: no such operator"),
    ]
    text = page(Counted("2026-01-01", "1.0", "2.0", rows))
    assert "| fp32 | v8.0 | 2 | 4.00 | 1.2 | 2.00 (one) | 2.00 |" in text
    assert "0.90*" in text
    assert "- four: LiteRT: no such operator" in text


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"no archive")
    with pytest.raises(EmulationError, match="holds no"):
        unpacked(wheel, tmp_path)


def test_processors_describe_themselves(tmp_path: Path) -> None:
    root = CPUS[1].root(tmp_path / "root")
    assert "asimddp" in (root / "proc/cpuinfo").read_text()
    assert "asimddp" not in (CPUS[0].root(tmp_path / "older") / "proc/cpuinfo").read_text()
