"""The cpu backend: generated C, compiled for a target and loaded into the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.loader import load_runtime
from circlet.errors import CompilerMissingError

if TYPE_CHECKING:
    import logging

    from circlet.artifact.file import Blob, PartitionCode
    from circlet.backends import base
    from circlet.backends.cpu.sized import SizedExecutable
    from circlet.backends.profiled import Peaks
    from circlet.limits import Limits
    from circlet.target.targets import Target


class CpuBackend:
    """Runs partitions on the cores of this machine."""

    name = "cpu"

    def describe(self) -> base.BackendInfo:
        """Native code in host memory, on the session's threads."""
        from circlet.backends.base import BackendInfo
        from circlet.backends.cpu.abi import ABI_VERSION

        return BackendInfo(is_native=True, uses_threads=True, abi=str(ABI_VERSION))

    def toolchain(self) -> str:
        """What tells one C compiler from another; CompilerMissingError where there is none."""
        from circlet.backends.cpu.c_compiler import compiler_identity

        return compiler_identity()

    def diagnose(self) -> str:
        """The C compiler, and how long it takes for a small unit."""
        from circlet.backends.cpu.diagnosis import compiler_facts

        return compiler_facts()

    def compiler(self, job: base.CompileJob) -> base.PartitionCompiler:
        """What lowers partitions to C and compiles that.

        Raises:
            CompilerMissingError: There is no C compiler, and no other backend may stand in.
        """
        from circlet.backends.base import Unavailable
        from circlet.backends.cpu.partition_compiler import CpuCompiler

        options = job.options
        if self.name in (job.loaded or ()):  # kernels are there: a C compiler may not be needed
            return CpuCompiler(job)
        try:
            self.toolchain()
        except CompilerMissingError as error:
            if options.strict or options.backends == (self.name,):
                raise
            _log().warning("nothing is compiled to native code: %s", error)
            why = "there is no C compiler: pip install 'circlet[compile]'"
            return Unavailable(self.name, why)
        if options.tune_seconds:
            from circlet.backends.cpu.tuning.tuned import TuningCompiler

            return TuningCompiler(job)
        return CpuCompiler(job)

    def peaks(self, target: Target) -> Peaks:
        """What a core does at most through code for a target."""
        from circlet.backends.cpu.profiling.peaks import measured_peaks

        return measured_peaks(target)

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> base.Executable:
        """A plan over its units, mapped constants and the runtime library."""
        loaded = Executable(
            load_runtime(shared),
            code.section("plan"),
            code.constants,
            code.sections.get("units", ()),
            code.section("reuse"),
            code.section("values"),
        )
        sizes = code.section("sizes")
        if not len(sizes):  # as of most networks: their starts import no more
            return loaded
        from circlet.backends.cpu.sized import with_sizes

        return with_sizes(loaded, sizes)

    def resizer(self, loaded: Sequence[base.Executable], target: Target) -> base.Resizer:
        """Other sizes over the kernels that are loaded and the weights that are mapped."""
        from circlet.backends.base import CompileAnew
        from circlet.backends.cpu.resizer import CpuResizer

        if not loaded:
            return CompileAnew(self, target)
        return CpuResizer(cast("Sequence[Executable | SizedExecutable]", loaded), target)


def _log() -> logging.Logger:
    """The logger, imported here: a start that finds its artifact has nothing to say."""
    import logging

    return logging.getLogger(__name__)
