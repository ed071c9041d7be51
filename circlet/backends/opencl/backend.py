"""The opencl backend: kernels that are written for a network, on the device that is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlet.artifact.file import Blob, PartitionCode
    from circlet.backends import base
    from circlet.backends.opencl.runner import OpenClPartition
    from circlet.limits import Limits
    from circlet.target.targets import Target

_TRANSFER_LATENCY_NS = 10_000.0  # an explicit copy and its wait, on discrete devices
_TRANSFER_BYTES_PER_NS = 10.0  # 16 lanes of the fourth PCI Express from pageable memory


class OpenClBackend:
    """Runs partitions on an OpenCL device; `CIRCLET_OPENCL_DEVICE` says which."""

    name = "opencl"

    def describe(self) -> base.BackendInfo:
        """Native code that takes host arrays; the device has threads of its own."""
        from circlet.backends.base import BackendInfo

        return BackendInfo(
            is_native=True,
            uses_threads=False,
            transfer_latency_ns=_TRANSFER_LATENCY_NS,
            transfer_bytes_per_ns=_TRANSFER_BYTES_PER_NS,
        )

    def toolchain(self) -> str:
        """pyopencl, the device and its driver.

        Raises:
            BackendError: There is no device.
        """
        import pyopencl

        return f"pyopencl {pyopencl.VERSION_TEXT}, {self.diagnose()}"

    def diagnose(self) -> str:
        """The device, its driver and platform.

        Raises:
            BackendError: There is no device.
        """
        from circlet.backends.opencl.device import chosen_device

        facts = chosen_device().facts
        memory = "host memory in place" if facts.shares_memory else "copies to its own memory"
        return f"{facts.name}, {facts.compute_units} compute units, {memory}"

    def compiler(self, job: base.CompileJob) -> base.PartitionCompiler:
        """What writes kernels for the device.

        Raises:
            BackendError: `strict`, and there is no device.
        """
        from circlet.backends.base import Unavailable
        from circlet.backends.opencl.device import chosen_device
        from circlet.backends.opencl.partition_compiler import OpenClCompiler
        from circlet.errors import BackendError

        try:
            return OpenClCompiler(job, chosen_device().facts)
        except BackendError as error:
            if job.options.strict:
                raise
            return Unavailable(
                self.name, error.what if not error.why else f"{error.what}: {error.why}"
            )

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> OpenClPartition:
        """A partition, its program built on the device.

        Raises:
            ArtifactError: The launch table is damaged.
            BackendError: There is no device, or its compiler refuses a kernel.
        """
        from circlet.backends.opencl.runner import OpenClPartition

        return OpenClPartition(code)

    def resizer(self, loaded: Sequence[base.Executable], target: Target) -> base.Resizer:
        """Other sizes have other launches; programs of the same kernels are built once."""
        from circlet.backends.base import CompileAnew

        return CompileAnew(self, target)


def backend() -> OpenClBackend:
    """The backend."""
    from circlet.forking import wait_for_imports_of

    wait_for_imports_of("pyopencl")
    return OpenClBackend()
