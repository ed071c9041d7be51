"""Circlet and LiteRT on Arm processors, without one: what they execute under qemu's user mode.

The same network runs on one thread through the aarch64 library of LiteRT's Python package (default
delegate, XNNPACK) and through Circlet's artifact, on the same emulated processors. Counted are the
instructions and the bytes of loads and stores of one run after a first one; start-up is left out.
Instruction counts are a proxy for time: they know nothing of ports, caches and latencies.

Needs Linux, qemu-user and the C++ library of Debian's libstdc++6-arm64-cross. Writes
bench/results/arm-*.json; of a run over all of the public corpora it makes docs/performance-arm.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.arguments import add_networks, parser
from bench.arm_result import Counted, Row, newest, write_page
from bench.emulated.arm import CPUS, ArmCpu
from bench.emulated.counting import Counts, build_plugin, counting, counts_of_runs
from bench.emulated.emulator import EmulationError, build_host, run_emulated
from bench.emulated.litert import LiteRt, run_litert, unpacked
from bench.measure import CORPUS, chosen
from circlet import __version__
from circlet.artifact.file import Artifact, open_artifact
from circlet.artifact.values import Value, unique_names
from circlet.comparison.networks import class_of, random_inputs
from circlet.comparison.outputs import Difference, difference
from circlet.compiler.compile import compile_model
from circlet.errors import CircletError
from circlet.formats import load
from circlet.options import Options

RUNS = 2  # the first fills what engines make when they first run, the second counts


@dataclass(frozen=True)
class Bench:
    """What is built and found once.

    Attributes:
        circlet_host: The program that runs Circlet's artifacts.
        litert_host: The program that runs LiteRT, None where only Circlet is counted.
        litert: LiteRT's library, likewise.
        plugin: What counts.
        folder: For everything; each run makes a folder in it.
    """

    circlet_host: Path
    litert_host: Path | None
    litert: LiteRt | None
    plugin: Path
    folder: Path

    def options(self, cpu: ArmCpu, counts: Path) -> list[str]:
        """Options of qemu for a processor, counting into a file."""
        root = self.folder / f"root-{cpu.name}"
        if not root.exists():
            cpu.root(root)
        return ["-L", str(root), *counting(self.plugin, counts)]


def main(arguments: Sequence[str]) -> None:
    """Count, print a line per network and processor, and write the result."""
    known = parser("arm", __doc__)
    add_networks(known, "the public corpora")
    known.add_argument("--cpus", default=",".join(cpu.name for cpu in CPUS), help="which of these")
    known.add_argument("--litert", type=Path, help="LiteRT's wheel for aarch64; else pip gets it")
    known.add_argument("--steps", type=int, default=0, help="of Circlet's steps, the largest")
    known.add_argument("--json", type=Path, help="file for the result, and no page is made")
    known.add_argument("--page", action="store_true", help="only make the page of the newest run")
    options = known.parse_args(arguments)
    if options.page:
        return write_page(newest())
    cpus = [cpu for cpu in CPUS if cpu.name in options.cpus.split(",")]
    missing = next((cpu.machine.missing for cpu in cpus if cpu.machine.missing), "")
    paths = chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models)
    if missing or not cpus or not paths:
        known.error(missing or f"no processor of {options.cpus}, or no network")
    with tempfile.TemporaryDirectory(prefix="bench-arm-") as folder:
        try:
            bench = prepared(Path(folder), options.litert, with_litert=not options.steps)
        except EmulationError as error:
            sys.exit(str(error))
        if options.steps:
            return _show_steps(bench, paths, cpus, options.steps)
        version = bench.litert.version if bench.litert else ""
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        counted = Counted(date, __version__, version, [])
        for path in paths:
            for row in rows(bench, path, cpus):
                print(row.line(), flush=True)
                counted.rows.append(row)
                counted.write(options.json)
    if not (options.json or options.paths or options.models != "*"):
        write_page(counted)
    return None


def prepared(folder: Path, wheel: Path | None, *, with_litert: bool = True) -> Bench:
    """Build the programs and the plugin, and unpack LiteRT.

    Raises:
        EmulationError: LiteRT's library is not to be had.
    """
    litert = unpacked(wheel, folder) if with_litert else None
    litert_host = build_host("aarch64", folder / "litert", "litert.c") if with_litert else None
    return Bench(
        build_host("aarch64", folder / "host"),
        litert_host,
        litert,
        build_plugin("qemu-aarch64", folder / "count.so"),
        folder,
    )


def rows(bench: Bench, path: Path, cpus: Sequence[ArmCpu]) -> Iterator[Row]:
    """One network on every processor."""
    try:
        kind, inputs = class_of(load(path)), random_inputs(path)
        artifact = compiled(path, cpus)
    except (CircletError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        yield from (Row(path.stem, "", cpu.name, why=f"Circlet: {reason}") for cpu in cpus)
        return
    for cpu in cpus:
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            yield _row(bench, path, artifact, cpu, (kind, inputs), Path(folder))


def compiled(path: Path, cpus: Sequence[ArmCpu]) -> Artifact:
    """One artifact with the code of every processor; raises as `compile_model`."""
    targets = ",".join(cpu.machine.target for cpu in cpus)
    return open_artifact(compile_model(path, Options(("cpu",), strict=True, target=targets)))


def _row(
    bench: Bench,
    path: Path,
    artifact: Artifact,
    cpu: ArmCpu,
    facts: tuple[str, dict[str, np.ndarray]],
    folder: Path,
) -> Row:
    kind, inputs = facts
    try:
        ours, outputs = run_ours(bench, artifact, cpu, list(inputs.values()), folder)
    except EmulationError as error:
        return Row(path.stem, kind, cpu.name, why=f"Circlet: {_first_line(error)}")
    try:
        theirs, answers = _run_theirs(bench, path, cpu, inputs, folder)
    except EmulationError as error:
        return Row(path.stem, kind, cpu.name, ours, why=f"LiteRT: {_first_line(error)}")
    apart = _apart(artifact, outputs, answers)
    return Row(path.stem, kind, cpu.name, ours, theirs, apart.part, apart.note)


def _first_line(error: Exception) -> str:
    """The line that says most: LiteRT logs before and after an error."""
    lines = str(error).splitlines() or [""]
    told = [line for line in lines if "ERROR" in line]
    return told[0] if told else lines[-1]


def run_ours(
    bench: Bench, artifact: Artifact, cpu: ArmCpu, inputs: list[np.ndarray], folder: Path
) -> tuple[Counts, list[np.ndarray]]:
    """What Circlet's last run took, and its outputs; raises as `run_emulated`."""
    to = folder / "circlet.txt"
    options = bench.options(cpu, to)
    outputs = run_emulated(
        artifact, cpu.machine, bench.circlet_host, inputs, folder / "c", runs=RUNS, options=options
    )
    return counts_of_runs(to)[-1], outputs


def _run_theirs(
    bench: Bench, path: Path, cpu: ArmCpu, inputs: dict[str, np.ndarray], folder: Path
) -> tuple[Counts, dict[str, bytes]]:
    if bench.litert is None or bench.litert_host is None:
        raise EmulationError("is not asked for")
    to = folder / "litert.txt"
    answers = run_litert(
        bench.litert,
        cpu,
        bench.litert_host,
        path,
        inputs,
        folder / "l",
        runs=RUNS,
        options=bench.options(cpu, to),
    )
    return counts_of_runs(to)[-1], answers


def _apart(artifact: Artifact, outputs: list[np.ndarray], answers: dict[str, bytes]) -> Difference:
    """How far LiteRT's outputs are from ours, which tell their types."""
    values = [Value.from_json(artifact.metadata["values"][n]) for n in artifact.metadata["outputs"]]
    ours = dict(zip(unique_names(values), outputs, strict=True))
    names = list(answers) if set(answers) == set(ours) else list(ours)
    if len(answers) != len(ours):
        return Difference(float("inf"), None, f"{len(answers)} outputs instead of {len(ours)}")
    theirs = {}
    for name, given in zip(names, answers.values(), strict=True):
        dtype = ours[name].dtype
        whole = given[: len(given) // dtype.itemsize * dtype.itemsize]
        theirs[name] = np.frombuffer(whole, dtype)
    return difference(ours, theirs)


def _show_steps(bench: Bench, paths: Sequence[Path], cpus: Sequence[ArmCpu], top: int) -> None:
    """Print where Circlet's instructions go, step by step."""
    for path in paths:
        for cpu in cpus:
            print(f"{path.stem} on {cpu.name}")
            for counts, kind, kernel, name in steps(bench, path, cpu)[:top]:
                print(f"{counts.instructions:14,} {counts.moved:14,}  {kind} / {kernel} / {name}")


def steps(bench: Bench, path: Path, cpu: ArmCpu) -> list[tuple[Counts, str, str, str]]:
    """Counts, operator kind, kernel and operator name of every step, the largest first.

    Raises:
        CircletError, EmulationError: The network cannot be compiled or run.
    """
    artifact = compiled(path, [cpu])
    (part,) = artifact.metadata["partitions"]
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        to = Path(folder, "steps.txt")
        inputs = list(random_inputs(path).values())
        options = bench.options(cpu, to)
        where, host = Path(folder, "c"), bench.circlet_host
        run_emulated(artifact, cpu.machine, host, inputs, where, options=options, steps=True)
        counts = counts_of_runs(to)
    told = [(*part["ops"][owner], kernel) for owner, kernel in part["steps"]]
    pairs = zip(counts[: len(told)], told, strict=True)  # the run's end is one mark more
    found = [(one, kind, kernel, name) for one, (kind, name, kernel) in pairs]
    return sorted(found, key=lambda row: -row[0].instructions)
