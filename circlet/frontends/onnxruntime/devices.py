"""Where values are: always in the memory of the CPU."""

from __future__ import annotations

import enum

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also

_KNOWN = ("cpu", "cuda", "cann", "dml", "webgpu", "gpu", "npu")
_VENDORS = {"cuda": 0x10DE, "dml": 0x1414, "cann": 0x19E5}


class OrtDeviceVendorId(enum.IntEnum):
    """Numbers of the makers of devices, as PCI has them."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtDevice:
    """A device by its kind and number; `make` makes one. Values can be on the CPU only."""

    def __init__(self, kind: str, device_id: int, vendor: int) -> None:
        self.name, self._id, self._vendor = kind, device_id, vendor

    @staticmethod
    def make(device_type: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device; RuntimeError where there is no such kind."""
        kind = device_type.lower()
        if kind not in _KNOWN:
            error = InputError("there is no such device", where=device_type, fix="use 'cpu'")
            raise also(error, RuntimeError, f"Unsupported device type: {device_type}")
        vendor = vendor_id if vendor_id >= 0 else _VENDORS.get(kind, 0)
        return OrtDevice(kind, device_id, OrtDeviceVendorId(vendor))

    def device_id(self) -> int:
        """Its number."""
        return self._id

    def device_type(self) -> int:
        """0 for the CPU, 1 for GPUs, 3 for NPUs."""
        return {"cpu": 0, "npu": 3, "cann": 3}.get(self.name, 1)

    def device_vendor_id(self) -> int:
        """The number of its maker, 0 where none is stated."""
        return self._vendor

    def device_mem_type(self) -> int:
        """The kind of its memory; 0, the usual one."""
        return 0


class OrtAllocatorType(enum.IntEnum):
    """Recorded; memory is planned by the compiler."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    """What memory is for."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    DEFAULT = 0


class OrtDeviceMemoryType(enum.IntEnum):
    """Who can reach memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfo:
    """What memory is like; all is the CPU's."""

    def __init__(
        self,
        name: str = "Cpu",
        allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
        device_id: int = 0,
        mem_type: OrtMemType = OrtMemType.DEFAULT,
    ) -> None:
        self.name, self.allocator_type = name, allocator_type
        self.device_id, self.mem_type = device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0


def check_is_cpu(device_type: str, device_id: int = 0) -> None:
    """RuntimeError where a value is wanted elsewhere than in the CPU's memory."""
    if OrtDevice.make(device_type, device_id).name != "cpu":
        error = InputError("there is no such device here", where=device_type, fix="use 'cpu'")
        sentence = "Can't allocate memory on the device using this package."
        raise also(error, RuntimeError, sentence)
