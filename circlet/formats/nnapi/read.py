"""A network of the Android Neural Networks API as JSON, one object with operands and operations.

The form is that of a test case: see docs/nnapi.md. Keys that describe no network, such as examples,
are left to others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from circlet.errors import FormatError
from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Description, Lifetime, Operand, Operation
from circlet.formats.nnapi.lower import lower
from circlet.ir import Model
from circlet.limits import DEFAULT_LIMITS, Limits

_MOST_SIZE = (1 << 32) - 1


def read_nnapi(data: memoryview, limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model that a JSON text describes.

    Raises:
        FormatError, GraphError, LimitError: The contents are no model that can be used.
        UnsupportedOpsError: Some operations cannot be lowered; all are named.
    """
    limits.check_file(len(data))
    try:
        found = json.loads(str(data, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError("the file is no JSON", why=str(error)) from None
    return lower(description_of(found))


def description_of(found: Mapping[str, Any]) -> Description:
    """The description that a JSON object holds; FormatError where it is none."""
    try:
        operands = [_operand(each) for each in found["operands"]]
        operations = [
            Operation(str(each["op"]), tuple(each["inputs"]), tuple(each["outputs"]))
            for each in found["operations"]
        ]
        inputs, outputs = tuple(found["inputs"]), tuple(found["outputs"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise FormatError("the JSON describes no network", why=why) from None
    indices = [*inputs, *outputs, *(i for each in operations for i in each.inputs + each.outputs)]
    if not all(isinstance(i, int) and 0 <= i < len(operands) for i in indices):
        raise FormatError("an index names no operand", why=f"there are {len(operands)}")
    return Description(operands, operations, inputs, outputs, bool(found.get("relaxed", False)))


def _operand(found: Mapping[str, Any]) -> Operand:
    code, dims = OperandCode[found["type"]], tuple(int(size) for size in found["dims"])
    if any(not 0 <= size <= _MOST_SIZE for size in dims):
        raise ValueError(f"the sizes {list(dims)} of {found.get('name', 'an operand')}")
    operand = Operand(code, dims, name=str(found.get("name", "")))
    operand.scale = float(found.get("scale") or 0.0)
    operand.zero_point = int(found.get("zeroPoint") or 0)
    channels = found.get("perChannel")
    if channels:
        operand.channel_dim = int(channels["channelDim"])
        operand.channel_scales = tuple(float(scale) for scale in channels["scales"])
    if Lifetime(found["lifetime"]) is Lifetime.CONSTANT:
        operand.is_omitted = bool(found.get("omitted")) or found["data"] is None
        if not operand.is_omitted:
            with np.errstate(over="ignore"):
                values = np.array(found["data"], code.dtype.numpy)
            operand.value = values.reshape(() if code.is_scalar else dims)
    return operand
