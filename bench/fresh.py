"""From process start to the first result, and memory: every measurement is a fresh process.

The interpreter starts, the engine is imported, the network is opened and run once on zeros. The
process itself says what memory it used: what its parent sees counts the parent's own pages too.
"""

from __future__ import annotations

import atexit
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import circlet
from circlet.artifact.cache import TAG
from circlet.comparison.workers import EngineError
from circlet.sample import Sample

TIMEOUT_S = 120.0
PACKAGE = Path(circlet.__file__).parent
_HEAVY = ("litert_cached", "openvino")
_FACTS = """
import time
end = time.clock_gettime(time.CLOCK_MONOTONIC)
with open("/proc/self/status") as file:
    facts = dict(line.split(":", 1) for line in file)
print(end, facts["VmHWM"].split()[0], facts["VmRSS"].split()[0], flush=True)
"""
_NUMPY = "import sys\nimport numpy as np\n"
_LITERT_COMPILED = """
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.cpu_options import CpuOptions
from ai_edge_litert.options import Options
cpu = CpuOptions(num_threads=1, xnnpack_weight_cache_path=sys.argv[2] + "/weights")
model = CompiledModel.from_file(sys.argv[1], options=Options(cpu_options=cpu))
key = next(iter(model.get_signature_list()))
sources, targets = model.create_input_buffers(0), model.create_output_buffers(0)
for buffer, row in zip(sources, model.get_input_tensor_details(key).values()):
    buffer.write(np.zeros(row["shape"], row["dtype"]))
model.run_by_index(0, sources, targets)
for buffer, row in zip(targets, model.get_output_tensor_details(key).values()):
    buffer.read(int(np.prod(row["shape"])), np.dtype(row["dtype"]).type)
"""
_LITERT = """
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(model_path=sys.argv[1], num_threads=1)
interpreter.allocate_tensors()
for value in interpreter.get_input_details():
    interpreter.set_tensor(value["index"], np.zeros(value["shape"], value["dtype"]))
interpreter.invoke()
for value in interpreter.get_output_details():
    interpreter.get_tensor(value["index"])
"""
_OPENVINO = """
import openvino as ov
core = ov.Core()
core.set_property({"CACHE_DIR": sys.argv[2]})
model = core.read_model(sys.argv[1])
model.reshape({p: [d.get_length() if d.is_static else 1 for d in p.partial_shape]
               for p in model.inputs})
hints = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1}
compiled = core.compile_model(model, "CPU", hints)
compiled([np.zeros(tuple(p.shape), p.element_type.to_dtype()) for p in compiled.inputs])
"""
_CIRCLET = """
from circlet import Session
session = Session(sys.argv[1], threads=1)
session.run([np.zeros(value.shape, value.dtype) for value in session.inputs])
"""
PROGRAMS: Mapping[str, str] = {
    "python": _NUMPY,
    "litert": _NUMPY + _LITERT,
    "litert_cached": _NUMPY + _LITERT_COMPILED,
    "openvino": _NUMPY + _OPENVINO,
    "circlet": _NUMPY + _CIRCLET,
}
"""What a user writes to get one result; the arguments are the network and a cache folder."""


@dataclass(frozen=True)
class Start:
    """One fresh process: milliseconds to its result, MiB at the peak and after the first run."""

    ms: float
    peak_mib: float
    after_mib: float


@dataclass(frozen=True)
class Starts:
    """Fresh processes of one engine on one network.

    Attributes:
        rounds: With warm caches.
        cold_ms: With empty caches; the compiler has compiled before.
    """

    rounds: list[Start]
    cold_ms: float

    @property
    def warm(self) -> Start:
        """The middle of the rounds."""
        return Start(
            median(run.ms for run in self.rounds),
            median(run.peak_mib for run in self.rounds),
            median(run.after_mib for run in self.rounds),
        )

    @property
    def warm_ms(self) -> list[float]:
        """Milliseconds of each round."""
        return [run.ms for run in self.rounds]


@cache
def _installation(package: Path) -> Path:
    """A copy of Circlet as an installer leaves it: in site-packages, with its bytecode."""
    folder = Path(tempfile.mkdtemp(prefix="bench-circlet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    site = folder / "site-packages"
    shutil.copytree(package, site / "circlet", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(site, quiet=1)
    return site


@cache
def _warm_toolchain() -> Path:
    """The compiler's folder of a cache after the installed copy compiled something."""
    folder = Path(tempfile.mkdtemp(prefix="bench-toolchain-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    start("circlet", Sample().model_path, folder)
    return folder / "compiler"


def start(engine: str, model: Path, caches: Path, package: Path = PACKAGE) -> Start:
    """Run one engine's program in a fresh process, with the Circlet of a package's folder.

    Raises:
        EngineError: It failed, or took longer than `TIMEOUT_S`.
    """
    command = [sys.executable, "-c", PROGRAMS[engine] + _FACTS, str(model), str(caches)]
    environment = {**os.environ, "CIRCLET_CACHE_DIR": str(caches)}
    environment["PYTHONPATH"] = str(_installation(package))
    with tempfile.TemporaryFile() as output:
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.DEVNULL, env=environment, cwd=caches
        )
        with _killed_after(process, TIMEOUT_S):
            process.wait()
        if process.returncode:
            raise EngineError(f"ended with status {process.returncode}")
        output.seek(0)
        end, peak_kib, after_kib = map(float, output.read().split()[-3:])
    return Start((end - begin) * 1e3, peak_kib / 1024, after_kib / 1024)


@contextmanager
def _killed_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def starts(engines: list[str], model: Path, rounds: int) -> dict[str, Starts]:
    """Cold once, then warm starts of the engines in turn; those that fail are left out.

    Engines whose start takes most of a second have one warm start. Every second round goes the
    other way round: what comes first finds colder caches.
    """
    with tempfile.TemporaryDirectory(prefix="bench-starts-") as name:
        folder = Path(name)
        cold: dict[str, float] = {}
        for engine in engines:
            home = folder / engine
            home.mkdir(mode=0o700)
            if engine == "circlet":
                shutil.copytree(_warm_toolchain(), home / "compiler")
                shutil.copy(_warm_toolchain().parent / TAG, home)
            try:
                cold[engine] = start(engine, model, home).ms
            except EngineError:
                continue
        warm: dict[str, list[Start]] = {engine: [] for engine in cold}
        for number in range(rounds):
            for engine in list(cold)[:: -1 if number % 2 else 1]:
                if number == 0 or engine not in _HEAVY:
                    warm[engine].append(start(engine, model, folder / engine))
    return {engine: Starts(runs, cold[engine]) for engine, runs in warm.items()}
