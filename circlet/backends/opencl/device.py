"""The device that partitions run on: which one it is, what it can do, its context and queues."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from circlet.config import Config
from circlet.errors import BackendError

ALIGNMENT = 512
"""Bytes that buffers within a larger one start on; no known device asks for more."""


@dataclass(frozen=True)
class DeviceFacts:
    """What kernels are chosen by.

    Attributes:
        name: The device, its driver and its platform.
        compute_units: How many groups run at the same time at the least.
        group_items: The most items of a group.
        local_bytes: Local memory of a group.
        has_double: Whether it computes in float64.
        divides_exactly: Whether float32 quotients and roots can be rounded to nearest.
        shares_memory: Whether it works in the memory of the host: a CPU, whose kernels see at once
            what the host writes.
        most_bytes: The largest buffer.
    """

    name: str
    compute_units: int
    group_items: int
    local_bytes: int
    has_double: bool
    divides_exactly: bool
    shares_memory: bool
    most_bytes: int = 1 << 62


class OpenClDevice:
    """A device with a context and a queue of its own.

    Attributes:
        facts: What kernels are chosen by.
        context, queue: Those of pyopencl; the queue runs what is put in, in order.
    """

    def __init__(self, device: Any) -> None:
        import pyopencl

        self.facts = _facts(device)
        self.context = pyopencl.Context([device])
        self.queue = pyopencl.CommandQueue(self.context)
        self._device = device

    def timed_queue(self) -> Any:
        """A queue whose events know when their kernels started and ended."""
        import pyopencl

        flags = pyopencl.command_queue_properties.PROFILING_ENABLE
        return pyopencl.CommandQueue(self.context, properties=flags)

    def build(self, source: str) -> Any:
        """A program, compiled.

        Raises:
            BackendError: The device's compiler refuses it.
        """
        import pyopencl

        options = ["-cl-std=CL1.2"]
        if self.facts.divides_exactly:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pyopencl.CompilerWarning)
                return pyopencl.Program(self.context, source).build(options=options)
        except (pyopencl.Error, RuntimeError) as error:
            raise BackendError(
                "the device's compiler refuses a kernel",
                where=self.facts.name,
                why=_first_lines(error),
                fix="report it with this message; run the network on the backend cpu meanwhile",
            ) from None


@cache
def chosen_device() -> OpenClDevice:
    """The device of this process, as `CIRCLET_OPENCL_DEVICE` names it, else the first GPU.

    Raises:
        BackendError: pyopencl is not installed or finds no device, or none of that name.
    """
    return OpenClDevice(choose(_devices(), Config.from_environment().opencl_device))


def choose(devices: Sequence[Any], wanted: str) -> Any:
    """One of some devices: that at an index, or whose name has a part; without either a GPU first.

    Raises:
        BackendError: There is none.
    """
    if not devices:
        why = "no OpenCL platform of this machine has a device"
        fix = "install the driver of a GPU, or PoCL (package pocl-opencl-icd) for the CPU"
        raise BackendError("there is no OpenCL device", why=why, fix=fix)
    if not wanted:
        return min(devices, key=_preference)
    if wanted.isdigit() and int(wanted) < len(devices):
        return devices[int(wanted)]
    for device in devices:
        if wanted.lower() in _name(device).lower():
            return device
    names = ", ".join(f"{index} {_name(device)}" for index, device in enumerate(devices))
    fix = f"set it to an index or a part of a name: {names}"
    raise BackendError(
        "there is no such OpenCL device",
        where="environment variable CIRCLET_OPENCL_DEVICE",
        why=f"its value is {wanted[:80]!r}",
        fix=fix,
    )


def _devices() -> list[Any]:
    try:
        import pyopencl

        platforms = pyopencl.get_platforms()
    except ImportError:
        fix = "pip install 'circlet[opencl]'"
        raise BackendError("pyopencl is not installed", fix=fix) from None
    except Exception as error:  # the loader's own error where it knows no platform
        raise BackendError("OpenCL does not start", why=_first_lines(error)) from None
    found: list[Any] = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except pyopencl.Error:  # a platform without devices may say so by an error
            continue
    return found


def _preference(device: Any) -> int:
    import pyopencl

    kinds = pyopencl.device_type
    order = (kinds.GPU, kinds.ACCELERATOR, kinds.CPU)
    return next((index for index, kind in enumerate(order) if device.type & kind), len(order))


def _name(device: Any) -> str:
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def _facts(device: Any) -> DeviceFacts:
    import pyopencl

    exact, kinds = pyopencl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT, pyopencl.device_type
    if device.mem_base_addr_align // 8 > ALIGNMENT:
        why = f"it aligns buffers to {device.mem_base_addr_align // 8} bytes"
        raise BackendError("an OpenCL device is not supported", where=_name(device), why=why)
    return DeviceFacts(
        name=f"{_name(device)}, driver {device.driver_version.strip()}",
        compute_units=device.max_compute_units,
        group_items=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        has_double="cl_khr_fp64" in device.extensions.split(),
        divides_exactly=bool(device.single_fp_config & exact),
        shares_memory=bool(device.host_unified_memory and device.type & kinds.CPU),
        most_bytes=device.max_mem_alloc_size,
    )


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:8])[:2000] or type(error).__name__
