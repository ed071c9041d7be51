"""Operators that came from .onnx files and that no record of Circle says: nodes as they were."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import NotWrittenError, channels_first
from circlet.ops.onnx.integer_sums import CONV
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from circlet.small_dtypes import dtype_named

OPSET = 20


@writes("CUSTOM")
def _node(op: Written) -> None:
    code = op.op.custom_code
    if not code.startswith(PREFIX):
        raise NotWrittenError("it is a custom operator")
    domain, _, kind = code.removeprefix(PREFIX).rpartition(".")
    attrs = op.attrs(OnnxAttrs)
    attributes = {name: _plain(value) for name, value in attrs.values}
    order = None
    if op.op.label == CONV:
        kind, order = kind.removeprefix("Nhwc"), channels_first(len(op[0].shape))
    if not domain:
        _check_meaning(kind, attrs.opset, attributes, len(op.op.inputs))
    given = [
        None if tensor is None else op.value(tensor, None if index else order)
        for index, tensor in enumerate(op.op.inputs)
    ]
    names = [tensor.name for tensor in op.op.outputs]
    made = op.graph.node(kind, given, names, attributes, domain)
    for index, value in enumerate(made):
        op.give_stored(value, order, index)


def _plain(value: object) -> object:
    """An attribute as a node has it; tensors are stored as type, sizes and elements."""
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[1], tuple):
        dtype, sizes, elements = cast("tuple[str, tuple[int, ...], Any]", value)
        return np.array(elements, dtype_named(dtype)).reshape(sizes)
    return list(value) if isinstance(value, tuple) else value


def _check_meaning(kind: str, opset: int, attributes: dict[str, object], inputs: int) -> None:
    """Refuse what the operator set of the file that is written says otherwise."""
    from onnx import defs

    try:
        then, now = (defs.get_schema(kind, version) for version in (opset, OPSET))
    except defs.SchemaError:
        raise NotWrittenError(f"operator set {OPSET} has no {kind}") from None
    if then.since_version == now.since_version:
        return
    known = set(now.attributes)
    if not set(attributes) <= known or not now.min_input <= inputs <= now.max_input:
        raise NotWrittenError(f"operator set {OPSET} says {kind} in other words than {opset}")
    for name in known & set(then.attributes) - set(attributes):
        if then.attributes[name].default_value != now.attributes[name].default_value:
            raise NotWrittenError(f"{kind} means something else in operator set {OPSET}")
