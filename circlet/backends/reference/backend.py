"""The reference backend: every op that has a record, by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlet.artifact.file import Blob, PartitionCode
    from circlet.backends import base
    from circlet.backends.reference.partition import ReferencePartition
    from circlet.limits import Limits
    from circlet.target.targets import Target


class ReferenceBackend:
    """Evaluates ops by their records."""

    name = "reference"

    def describe(self) -> base.BackendInfo:
        """Interpreted, in host memory; numpy decides about threads itself."""
        from circlet.backends.base import BackendInfo

        return BackendInfo(is_native=False, uses_threads=False)

    def toolchain(self) -> str:
        """Nothing is compiled."""
        return ""

    def diagnose(self) -> str:
        """The version of numpy."""
        import numpy as np

        return f"numpy {np.__version__}"

    def compiler(self, job: base.CompileJob) -> base.PartitionCompiler:
        """What stores partitions as models."""
        from circlet.backends.reference.partition import ReferenceCompiler

        return ReferenceCompiler(job)

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> ReferencePartition:
        """The graph of a partition."""
        from circlet.backends.reference.partition import ReferencePartition

        return ReferencePartition(code.constants, limits, code.section("work"))

    def resizer(self, loaded: Sequence[base.Executable], target: Target) -> base.Resizer:
        """Partitions are stored anew."""
        from circlet.backends.base import CompileAnew

        return CompileAnew(self, target)
