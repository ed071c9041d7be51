"""Compiles partitions whose kernels are chosen by measuring them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from circlet.backends.base import Compiled
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.backends.cpu.tuning.candidates import CandidateBuilder, Images
from circlet.backends.cpu.tuning.search import Tuning, check_measurable, tune
from circlet.backends.cpu.tuning.timer import BenchmarkTimer, Timer
from circlet.plan.partition import Partition
from circlet.progress import Stage


class TuningCompiler(CpuCompiler):
    """A compiler that measures kernels for as long as the options say.

    Attributes:
        timer: What measures; this machine by default.
    """

    timer: Timer = BenchmarkTimer()

    def compile(self, partitions: Sequence[Partition]) -> Compiled:
        """Partitions tuned for each target in turn; "tuning" says what that did.

        The facts hold a summary for each target, the report all that was measured.

        Raises:
            TargetError: This machine cannot run code for one of the targets.
            CircletError: As `CpuCompiler.compile`.
        """
        if not partitions:
            return Compiled(())
        check_measurable(self.job.targets)
        whole = {t: [self.lowered(part, t) for part in partitions] for t in self.job.targets}
        refused = self.refused(partitions, whole)
        if refused:
            return Compiled((), refused=refused)
        seconds, images = self.job.options.tune_seconds, Images(self.config)
        lowered, records = {}, list[Tuning]()
        for target in self.job.targets:
            stage = Stage(f"tuning for {target}", seconds, "seconds")
            builder = CandidateBuilder(self, partitions, target, images)
            lowered[target], record = tune(builder, target, seconds, self.timer, stage)
            records.append(record)
        return replace(
            self.built(lowered, images.built),
            facts={"tuning": [record.summary for record in records]},
            report={"tuning": [asdict(record) for record in records]},
        )
