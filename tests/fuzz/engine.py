"""Drives a worker through the cases, starts it anew when it dies, and keeps what was found."""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
CASES_PER_WORKER = 5000
IDLE_TURNS = 180
_TURN_S = 1.0
_APART = 10**9


@dataclass(frozen=True)
class Request:
    """What to run: a number of cases, or as many as fit into a time.

    `only` names the one maker whose cases are wanted; generated code runs the share `native`.
    """

    seed: int
    folder: Path
    count: int | None = None
    seconds: float | None = None
    native: float = 0.0
    start: int = 0
    only: str = ""


@dataclass
class Report:
    """What happened.

    Attributes:
        executions: Files that were made, read and, if they could be, run.
        outcomes: How often each stage ended in which way.
        makers: How often files of each maker ended a stage in which way.
        findings: The first case of each defect by its signature, and how often it came.
        seconds: Wall time of the whole.
    """

    executions: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    makers: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[str, Path] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def table(self) -> str:
        """The report as text."""
        lines = [f"{self.executions} executions in {self.seconds:.0f} s"]
        for (stage, outcome), count in sorted(self.outcomes.items()):
            lines.append(f"  {stage:10} {outcome:20} {count}")
        lines += self._by_maker()
        for signature, path in self.findings.items():
            lines.append(f"FINDING {signature} ({self.times[signature]} times): {path}")
        return "\n".join(lines)

    def _by_maker(self) -> Iterator[str]:
        """A line for each maker: its files, and how their stages ended."""
        for maker in sorted({maker for maker, _ in self.makers}):
            counts = {what: n for (made_by, what), n in self.makers.items() if made_by == maker}
            ends = ", ".join(f"{what} {n}" for what, n in sorted(counts.items()) if what != "files")
            yield f"  {maker:10} {counts['files']} files: {ends}"

    def add(self, other: Report) -> None:
        """Count what another report counted; of one defect the first file stays."""
        self.executions += other.executions
        for name in ("outcomes", "makers", "times"):
            getattr(self, name).update(getattr(other, name))
        self.findings = {**other.findings, **self.findings}
        self.seconds = max(self.seconds, other.seconds)


def fuzz(request: Request) -> Report:
    """Run all cases of a request."""
    request.folder.mkdir(parents=True, exist_ok=True)
    report, begin, number = Report(), time.monotonic(), request.start
    end = begin + request.seconds if request.seconds is not None else None
    last = request.start + request.count if request.count is not None else sys.maxsize
    while number < last and (end is None or time.monotonic() < end):
        count = min(CASES_PER_WORKER, last - number)
        number = _Worker(request, number, count, report).run(end)
        report.seconds = time.monotonic() - begin
        (request.folder / "report.txt").write_text(report.table() + "\n")
    return report


def fuzz_side_by_side(request: Request, jobs: int) -> Report:
    """Run the cases of a request in so many processes, each with a folder of its own."""
    share = _APART if request.count is None else -(-request.count // jobs)
    left = sys.maxsize if request.count is None else request.count
    requests = [
        replace(
            request,
            folder=request.folder / str(job),
            start=request.start + job * share,
            count=None if request.count is None else max(0, min(share, left - job * share)),
        )
        for job in range(jobs)
    ]
    whole = Report()
    with ThreadPoolExecutor(jobs) as pool:
        for report in pool.map(fuzz, requests):
            whole.add(report)
    return whole


def finding_path(folder: Path, seed: int, number: int, maker: str) -> Path:
    """Where the input of a finding is kept."""
    suffix = {"artifact": ".circlet", "onnx": ".onnx"}.get(maker, ".tflite")
    return folder / f"finding-{seed}-{number}{suffix}"


class _Worker:
    """One process, from its first case to its death."""

    def __init__(self, request: Request, start: int, count: int, report: Report) -> None:
        self._request, self._report = request, report
        self._number, self._name, self._stage, self._maker = start - 1, "", "", ""
        self._errors = request.folder / "stderr.txt"
        command = [sys.executable, "-m", "tests.fuzz.worker", "--folder", str(request.folder)]
        command += ["--seed", str(request.seed), "--start", str(start), "--count", str(count)]
        command += ["--native", str(request.native), "--only", request.only]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            )

    def run(self, end: float | None) -> int:
        """Read what it says; the number of the case to go on with."""
        try:
            for line in self._lines():
                self._take(json.loads(line))
                if end is not None and time.monotonic() > end:
                    break
            else:
                self._ended()
        finally:
            self._process.kill()
            self._process.wait()
        return self._number + 1

    def _lines(self) -> Iterator[bytes]:
        """Its lines until it dies, or has long done nothing: said no word, used no processor.

        Turns of waiting are counted, not time: processes that are stopped for an hour go on.
        """
        pipe: IO[bytes] | None = self._process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector, pipe:
            selector.register(pipe, selectors.EVENT_READ)
            idle, worked = 0, 0
            while idle < IDLE_TURNS:
                if not selector.select(_TURN_S):
                    before, worked = worked, _ticks(self._process.pid)
                    idle = idle + 1 if worked == before else 0
                    continue
                idle, line = 0, pipe.readline()
                if not line:
                    return
                yield line
        self._process.kill()

    def _take(self, message: dict[str, Any]) -> None:
        if "number" in message:
            self._number, self._name, self._stage = message["number"], message["name"], ""
            self._maker = message["maker"]
            self._report.executions += 1
            self._report.makers[self._maker, "files"] += 1
            return
        self._stage = message["stage"]
        self._report.outcomes[self._stage, message["outcome"]] += 1
        self._report.makers[self._maker, f"{self._stage} {_end(message['outcome'])}"] += 1
        found = message["finding"]
        if found is not None:
            self._keep(f"{found['stage']}: {found['signature']}", found["text"])

    def _ended(self) -> None:
        """Nothing to report where it did all that it was asked for."""
        status = self._process.wait()
        if status == 0:
            return
        text = self._errors.read_text(errors="replace")
        if not self._name:
            raise RuntimeError(f"a worker ended before its first case:\n{text}")
        self._report.outcomes[f"after {self._stage or 'start'}", f"died {status}"] += 1
        self._keep(f"died with {status} after {self._stage or 'start'}{_place(text)}", text)

    def _keep(self, signature: str, text: str) -> None:
        """Keep the input of the first case of each defect, which a dead worker has not kept."""
        self._report.times[signature] += 1
        path = finding_path(self._request.folder, self._request.seed, self._number, self._maker)
        if signature in self._report.findings:
            if path not in self._report.findings.values():
                path.unlink(missing_ok=True)
            return
        if not path.exists():
            shutil.copyfile(self._request.folder / "current.tflite", path)
        path.with_suffix(".txt").write_text(f"{signature}\n{self._name}\n\n{text}")
        self._report.findings[signature] = path


def _ticks(process: int) -> int:
    """Processor time that a process has used, with the children that it waited for."""
    behind_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, behind_name[11:15]))


def _end(outcome: str) -> str:
    return outcome if outcome in ("ok", "finding") else "code"


def _place(stack: str) -> str:
    """The innermost function of Circlet in what faulthandler wrote, most recent call first."""
    found = re.search(r'File ".*/circlet/(.*)", line \d+ in (\w+)', stack)
    return f" in {found[1]}:{found[2]}" if found else ""
