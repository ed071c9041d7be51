"""The Android Neural Networks API in Python: its objects, their phases, checks and result codes.

Objects raise `circlet.errors.NNAPIError`, whose `result` is a `ResultCode`; `c_functions` has the
same as functions with the arguments and results of the C API.
"""

from circlet.frontends.nnapi.burst import Burst
from circlet.frontends.nnapi.codes import (
    DeviceCode,
    DurationCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)
from circlet.frontends.nnapi.compilation import Compilation
from circlet.frontends.nnapi.device import Device, device, device_count, devices
from circlet.frontends.nnapi.event import Event
from circlet.frontends.nnapi.execution import Execution
from circlet.frontends.nnapi.memory import Memory
from circlet.frontends.nnapi.model import Model
from circlet.frontends.nnapi.operand_type import OperandType

__all__ = [
    "Burst",
    "Compilation",
    "Device",
    "DeviceCode",
    "DurationCode",
    "Event",
    "Execution",
    "Memory",
    "Model",
    "OperandType",
    "PreferenceCode",
    "PriorityCode",
    "ResultCode",
    "device",
    "device_count",
    "devices",
]
