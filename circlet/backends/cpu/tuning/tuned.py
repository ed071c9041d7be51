"""Compiles partitions whose kernels are chosen by measuring them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from circlet.backends.base import Compiled
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.backends.cpu.tuning.candidates import CandidateBuilder, Images
from circlet.backends.cpu.tuning.search import Tuning, check_measurable, tune
from circlet.backends.cpu.tuning.timer import Timer
from circlet.plan.partition import Partition


def compile_tuned(
    compiler: CpuCompiler, partitions: Sequence[Partition], timer: Timer | None = None
) -> Compiled:
    """Partitions tuned for each target in turn; "tuning" says what that did.

    The facts hold a summary for each target, the report all that was measured.

    Raises:
        TargetError: This machine cannot run code for one of the targets.
        CircletError: As `CpuCompiler.compile`.
    """
    targets, seconds = compiler.job.targets, compiler.job.options.tune_seconds
    check_measurable(targets)
    images = Images()
    lowered, records = {}, list[Tuning]()
    for target in targets:
        builder = CandidateBuilder(compiler, partitions, target, images)
        lowered[target], record = tune(builder, target, seconds, timer)
        records.append(record)
    return replace(
        compiler.built(lowered, images.built),
        facts={"tuning": [record.summary for record in records]},
        report={"tuning": [asdict(record) for record in records]},
    )
