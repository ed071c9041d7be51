"""How long networks take to compile, and how that grows with operators and distinct kernels.

Compiles synthetic networks (`bench/synthetic.py`), in float and in int8, of blocks that are alike
or distinct, and the networks given: by default the public ones called MobileNet v2. The least of
the rounds counts. Writes bench/results/compile-*.json, which the next `python -m bench report`
shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import load, machine
from bench.arguments import add_loaded, add_rounds, parser
from bench.compile_time_result import CompileTimes, Row
from bench.measure import CORPUS, private_cache
from bench.synthetic import KINDS, varied
from circlet.artifact.file import open_artifact
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.backends.cpu.reuse_index import ReuseIndex
from circlet.compiler.compile import compile_model
from circlet.compiler.planning import plan
from circlet.compiler.template import Source, Template
from circlet.options import Options
from circlet.sample import Sample


def main(arguments: Sequence[str]) -> None:
    """Measure, print a line per network and keep the result."""
    known = parser("compile_time", __doc__)
    known.add_argument("paths", nargs="*", type=Path, help="networks; else MobileNets v2")
    known.add_argument("--ops", default="125,250,500", help="sizes of the synthetic networks")
    add_rounds(known, 3)
    add_loaded(known)
    options = known.parse_args(arguments)
    watch = load.watch(options.loaded)
    paths = options.paths or sorted(CORPUS.glob("*mobilenet_v2*.tflite"))
    rows = []
    with private_cache():
        compile_model(Sample().model_path, Options())
        for name, source in _networks(paths, [int(count) for count in options.ops.split(",")]):
            row = measured(name, source, options.rounds)
            print(f"{name:40} {row.ops:5} ops {row.kernels:4} kernels {row.seconds:.2f} s")
            rows.append(row)
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    CompileTimes(date, machine.facts() | watch.facts(), rows).write()


def _networks(paths: Sequence[Path], ops: Sequence[int]) -> Iterator[tuple[str, Source]]:
    for path in paths:
        yield path.stem, path
    for kind in KINDS:
        for form in ("alike", "distinct"):
            for count in ops:
                yield f"{kind}, {form}", varied(kind, count, alike=form == "alike")


def measured(name: str, source: Source, rounds: int) -> Row:
    """Compile a network `rounds` times."""
    options = Options()
    seconds, plan_s = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        artifact = compile_model(source, options)
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        _lower(source, options)
        plan_s.append(time.perf_counter() - begin)
    kept = open_artifact(artifact)
    sections = [part.section("reuse") for part in kept.select().partitions]
    indexes = [ReuseIndex.from_bytes(section) for section in sections if len(section)]
    kernels = sum(len(reuse.kernels) for reuse in indexes)
    return Row(name, len(kept.metadata["placement"]), kernels, min(seconds), min(plan_s))


def _lower(source: Source, options: Options) -> None:
    planned = plan(Template.read(source, options), options)
    for compiler in planned.compilers:
        if isinstance(compiler, CpuCompiler):
            for part in planned.partitions_of(compiler):
                compiler.lowered(part, planned.job.targets[0])
