"""Devices: one for each backend."""

from __future__ import annotations

from dataclasses import dataclass

from circlet import __version__
from circlet.backends.registry import backend_names, find_backend
from circlet.frontends.nnapi.codes import FEATURE_LEVEL, DeviceCode
from circlet.frontends.nnapi.object import coded, refused


@dataclass(frozen=True)
class Device:
    """A backend as a device of the API.

    Attributes:
        name: The backend's name.
    """

    name: str

    @property
    def type(self) -> DeviceCode:
        """CPU where values lie in the memory of the host, else ACCELERATOR."""
        with coded("ANeuralNetworksDevice_getType"):
            is_host = find_backend(self.name).describe().memory[0] == "host"
        return DeviceCode.CPU if is_host else DeviceCode.ACCELERATOR

    @property
    def version(self) -> str:
        """The version of Circlet."""
        return __version__

    @property
    def feature_level(self) -> int:
        """29: all operations up to 1.2."""
        return FEATURE_LEVEL


def devices() -> list[Device]:
    """All devices, in the order of their indices."""
    return [Device(name) for name in backend_names()]


def device_count() -> int:
    """How many devices there are."""
    return len(devices())


def device(index: int) -> Device:
    """The device of an index.

    Raises:
        NNAPIError: BAD_DATA where there is none.
    """
    known = devices()
    if not 0 <= index < len(known):
        why = f"{index}, there are {len(known)}"
        raise refused("there is no such device", where="ANeuralNetworks_getDevice", why=why)
    return known[index]
