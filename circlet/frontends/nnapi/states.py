"""The state machine: what each call gives in each phase of the object that it is made on.

Phases are those that AOSP's runtime has; objects that were freed are refused as DEAD_OBJECT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from circlet.frontends.nnapi.codes import ResultCode


class Phase(Enum):
    """Where in its life an object is."""

    BUILDING = "being built"
    FINISHED = "finished"
    INVALID = "not valid, as finishing it failed"
    PREPARATION = "not started"
    COMPUTATION = "being computed"
    COMPLETED = "completed"
    INSUFFICIENT = "completed, but an output did not fit its buffer"
    FAILED = "ended by an error"
    READY = "ready"
    FREED = "freed"

    __hash__ = object.__hash__  # members are compared by identity; that of `Enum` is slow


Row = Mapping[Phase, ResultCode]
Table = dict[str, Row]


def _table(prefix: str, phases: Sequence[Phase], allowed: Mapping[str, Sequence[Phase]]) -> Table:
    """Rows of calls, by their whole names, that some phases allow."""
    return {f"{prefix}_{call}": _row(phases, where) for call, where in allowed.items()}


def _row(phases: Sequence[Phase], allowed: Sequence[Phase]) -> Row:
    row = dict.fromkeys(phases, ResultCode.BAD_STATE)
    row.update(dict.fromkeys(allowed, ResultCode.NO_ERROR))
    return {**row, Phase.FREED: ResultCode.DEAD_OBJECT}


_BUILT = (Phase.BUILDING, Phase.FINISHED, Phase.INVALID)
_RUN = (
    *(Phase.PREPARATION, Phase.COMPUTATION, Phase.COMPLETED),
    *(Phase.INSUFFICIENT, Phase.FAILED),
)
_ONLY_BUILDING, _ONLY_FINISHED = (Phase.BUILDING,), (Phase.FINISHED,)
_NOT_STARTED, _SIZED = (Phase.PREPARATION,), (Phase.COMPLETED, Phase.INSUFFICIENT)
_NOT_COMPUTED = tuple(phase for phase in _RUN if phase is not Phase.COMPUTATION)
_COMPUTES = ("startCompute", "compute", "burstCompute")

MODEL = _table(
    "ANeuralNetworksModel",
    _BUILT,
    {
        "addOperand": _ONLY_BUILDING,
        "setOperandValue": _ONLY_BUILDING,
        "setOperandValueFromMemory": _ONLY_BUILDING,
        "setOperandSymmPerChannelQuantParams": _ONLY_BUILDING,
        "addOperation": _ONLY_BUILDING,
        "identifyInputsAndOutputs": _ONLY_BUILDING,
        "relaxComputationFloat32toFloat16": _ONLY_BUILDING,
        "finish": _ONLY_BUILDING,
        "getSupportedOperationsForDevices": _ONLY_FINISHED,
    },
)
MODEL |= _table(
    "ANeuralNetworksCompilation",
    _BUILT,
    {"create": _ONLY_FINISHED, "createForDevices": _ONLY_FINISHED},
)

COMPILATION = _table(
    "ANeuralNetworksCompilation",
    _BUILT,
    {
        "setPreference": _ONLY_BUILDING,
        "setPriority": _ONLY_BUILDING,
        "setTimeout": _ONLY_BUILDING,
        "setCaching": _ONLY_BUILDING,
        "finish": _ONLY_BUILDING,
    },
) | {
    "ANeuralNetworksExecution_create": _row(_BUILT, _ONLY_FINISHED),
    "ANeuralNetworksBurst_create": _row(_BUILT, _ONLY_FINISHED),
}

EXECUTION = _table(
    "ANeuralNetworksExecution",
    _RUN,
    {
        "setInput": _NOT_STARTED,
        "setInputFromMemory": _NOT_STARTED,
        "setOutput": _NOT_STARTED,
        "setOutputFromMemory": _NOT_STARTED,
        "setMeasureTiming": _NOT_STARTED,
        "setTimeout": _NOT_STARTED,
        "setReusable": _NOT_STARTED,
        "enableInputAndOutputPadding": _NOT_STARTED,
        **dict.fromkeys(_COMPUTES, _NOT_STARTED),
        "getDuration": (Phase.COMPLETED,),
        "getOutputOperandRank": _SIZED,
        "getOutputOperandDimensions": _SIZED,
    },
)

REUSABLE_EXECUTION = EXECUTION | _table(
    "ANeuralNetworksExecution", _RUN, dict.fromkeys(_COMPUTES, _NOT_COMPUTED)
)
"""Executions that may be computed again, once `setReusable` said so."""

_ALIVE = (Phase.READY,)
EVENT = _table("ANeuralNetworksEvent", _ALIVE, {"wait": _ALIVE})
BURST = {"ANeuralNetworksExecution_burstCompute": _row((*_ALIVE, Phase.COMPUTATION), _ALIVE)}
MEMORY = {
    call: _row(_ALIVE, _ALIVE)
    for call in (
        "ANeuralNetworksModel_setOperandValueFromMemory",
        "ANeuralNetworksExecution_setInputFromMemory",
        "ANeuralNetworksExecution_setOutputFromMemory",
    )
}
