"""docs/performance.md and a page with pictures for each class of machines, made of the newest runs.

With a file, the run in it stands for its class of machines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import bf16_result, compile_time_result, plots, scaling_result
from bench.arguments import add_loaded, parser
from bench.classes import CLASSES, MachineClass
from bench.page import SUMMARY, loaded, page, ratio_picture, summary_rows
from bench.result import FOLDER, Result, Run, from_json, newest_file

DOCS = Path(__file__).parents[1] / "docs"


def main(arguments: Sequence[str]) -> None:
    """Make the pages."""
    known = parser("report", __doc__)
    known.add_argument("file", type=Path, nargs="?", help="a result; else the newest")
    add_loaded(known)
    options = known.parse_args(arguments)
    file = options.file or newest_file("run", folder=FOLDER)
    if file is None:
        known.error(f"no run in {FOLDER}")
    write(from_json(file.read_text(encoding="utf-8")), options.loaded)


def write(run: Run, may_be_loaded: bool = False) -> None:
    """Write the page of a run's class, and the one of all; not of a loaded machine unless allowed.

    The newest runs on other classes of machines keep their places in the page of all, as do the
    parts of classes whose runs are not in the folder.
    """
    of = run.machine_class
    curves, rounded = scaling_result.newest(of), bf16_result.newest(of)
    compiling = compile_time_result.newest(of)
    why = loaded(run, curves, rounded, compiling)
    if why and not may_be_loaded:
        sys.exit(f"no page: measured under load: {why}; measure again, or say --loaded")
    folder = DOCS / "performance" / of.slug
    for threads in run.threads:
        plots.ratios(run, folder, threads)
    plots.starts(run, folder)
    if curves:
        plots.curves(curves, folder)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder.with_suffix(".md")
    target.write_text(page(run, curves, rounded, compiling), encoding="utf-8")
    overview = DOCS / "performance.md"
    before = overview.read_text(encoding="utf-8") if overview.exists() else ""
    overview.write_text(page_of_all([run, *_others(run)], before), encoding="utf-8")
    print(f"wrote {target} and {overview}")


def _others(run: Run) -> list[Run]:
    files = [newest_file("run", of, FOLDER) for of in CLASSES if of != run.machine_class]
    return [from_json(file.read_text(encoding="utf-8")) for file in files if file]


def page_of_all(runs: Sequence[Run], before: str = "") -> str:
    """What each class of machines has come to, with the way to its page.

    Args:
        runs: At most one of a class.
        before: The page as it was, which gives the parts of classes without a run.
    """
    sections = before.split("\n## ")[1:]
    parts = {section.partition("\n")[0]: f"## {section.strip()}" for section in sections}
    parts |= {run.machine_class.name: _part(run) for run in runs}
    head = [
        "# Performance",
        "How many times faster Circlet is than the fastest of LiteRT, OpenVINO and ONNX Runtime on "
        "the public networks, a class of machines at a time, losses included. Each has a page with "
        "all networks, the machine, the settings of every engine, start-up, memory and what is "
        "below its bar and why; [how it is measured](benchmarking.md). Arm is compared [by "
        "instructions](performance-arm.md).",
    ]
    return "\n\n".join([*head, *(parts[of.name] for of in CLASSES if of.name in parts)]) + "\n"


def _part(run: Run) -> str:
    of = run.machine_class
    cpu = f"{run.machine.get('cpu', 'unknown')}, {run.machine.get('cpus', '?')} CPUs"
    lines = [
        f"## {of.name}",
        f"[All networks](performance/{of.slug}.md); {cpu}, run of {run.date}.",
        "\n".join([SUMMARY, *summary_rows(run)]),
        *(ratio_picture(run, threads, "performance/") for threads in run.threads[:1]),
    ]
    return "\n\n".join(lines)


def lines(result: Result, of: MachineClass) -> Iterator[str]:
    """What to print of a network: a line per number of threads, or why there is none."""
    for threads, row in result.latency.items():
        times = "  ".join(f"{name} {us:.1f}" for name, us in row.us.items())
        ratio, met = row.ratio, row.verdict(of.bars(threads))
        head = f"{result.name:44} {result.kind:7} {threads}T  {times} us"
        if ratio:
            yield f"{head}  {ratio.middle:.2f} [{ratio.low:.2f} {ratio.high:.2f}] {met}"
        else:
            yield f"{head}  not compared"
    if not result.latency:
        yield f"{result.name:44} {'; '.join(f'{n}: {why}' for n, why in result.refused.items())}"
