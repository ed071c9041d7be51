"""Numbers of results, preferences, devices and durations.

Source: NeuralNetworks.h and NeuralNetworksTypes.h of AOSP.
"""

from __future__ import annotations

from enum import IntEnum


class ResultCode(IntEnum):
    """What a call ends in."""

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    BAD_STATE = 6
    UNMAPPABLE = 7
    OUTPUT_INSUFFICIENT_SIZE = 8
    UNAVAILABLE_DEVICE = 9
    MISSED_DEADLINE_TRANSIENT = 10
    MISSED_DEADLINE_PERSISTENT = 11
    RESOURCE_EXHAUSTED_TRANSIENT = 12
    RESOURCE_EXHAUSTED_PERSISTENT = 13
    DEAD_OBJECT = 14


class PreferenceCode(IntEnum):
    """What a compilation is to be good at."""

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2


class PriorityCode(IntEnum):
    """How urgent executions of a compilation are."""

    LOW = 90
    MEDIUM = 100
    HIGH = 110


class DeviceCode(IntEnum):
    """What a device is."""

    UNKNOWN = 0
    OTHER = 1
    CPU = 2
    GPU = 3
    ACCELERATOR = 4


class DurationCode(IntEnum):
    """Which part of an execution is timed."""

    ON_HARDWARE = 0
    IN_DRIVER = 1
    FENCED_ON_HARDWARE = 2
    FENCED_IN_DRIVER = 3


FEATURE_LEVEL = 29
"""The feature level of every device: that of Android 10, whose operations are 1.0 to 1.2."""
CACHE_TOKEN_BYTES = 32
"""Bytes of the token that names a compilation in a cache."""
COPIED_BYTES = 128
"""Values of constants up to this size are copied; longer ones stay where they are."""
NO_DURATION = 2**64 - 1
"""The duration of an execution that was not timed."""
