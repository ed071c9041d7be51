"""A description as JSON, in the form that `circlet.formats.nnapi.read` reads."""

from __future__ import annotations

import json

import numpy as np

from circlet.formats.nnapi.description import Description, Operand
from circlet.formats.nnapi.from_model import describe
from circlet.ir import Model


def write_nnapi(model: Model, origins: bool) -> bytes:
    """The JSON of a model; the form has no place for origins.

    Raises:
        FormatError: No operations say what some of its operators do.
    """
    return json.dumps(json_of(describe(model)), separators=(",", ":")).encode()


def json_of(description: Description) -> dict[str, object]:
    """A description as plain data."""
    lifetimes = dict.fromkeys(description.outputs, "OUTPUT")
    lifetimes |= dict.fromkeys(description.inputs, "INPUT")
    return {
        "operands": [
            _operand(each, lifetimes.get(index, "TEMPORARY"))
            for index, each in enumerate(description.operands)
        ],
        "operations": [
            {"op": each.kind, "inputs": list(each.inputs), "outputs": list(each.outputs)}
            for each in description.operations
        ],
        "inputs": list(description.inputs),
        "outputs": list(description.outputs),
        "relaxed": description.is_relaxed,
    }


def _operand(operand: Operand, lifetime: str) -> dict[str, object]:
    is_constant = operand.is_omitted or operand.value is not None
    found: dict[str, object] = {
        "name": operand.name,
        "type": operand.code.name,
        "dims": list(operand.dims),
        "lifetime": "CONSTANT" if is_constant else lifetime,
        "data": None if operand.value is None else np.ravel(operand.value).tolist(),
    }
    if operand.scale or operand.zero_point:
        found |= {"scale": operand.scale, "zeroPoint": operand.zero_point}
    if operand.channel_scales:
        scales = list(operand.channel_scales)
        found["perChannel"] = {"channelDim": operand.channel_dim, "scales": scales}
    if operand.is_omitted:
        found["omitted"] = True
    return found
