"""A model as a network to the Android Neural Networks API, as TFLite's delegate would hand it over.

Operations are those of NNAPI 1.2 and ONE's extensions; of operand types there is one more,
TENSOR_QUANT8_ASYMM_SIGNED of NNAPI 1.3, so that networks of INT8 stay what they are.
"""

from __future__ import annotations

from circlet.errors import FormatError
from circlet.formats.nnapi import writers  # noqa: F401  fills the table
from circlet.formats.nnapi.description import Description
from circlet.formats.nnapi.writing import WRITERS, NotWrittenError, Operands, Written
from circlet.ir import Model, Op


def describe(model: Model) -> Description:
    """The description of a model's main graph.

    Raises:
        FormatError: No operations say what some of its operators do; all are named.
    """
    graph, operands = model.main, Operands()
    refused: list[str] = []
    for op in graph.ops:
        try:
            _write(op, operands)
        except NotWrittenError as error:
            refused.append(f"{op.name} ({op.label}): {error}")
    try:
        given = [tensor for tensor in graph.inputs if not tensor.is_constant]
        operands.description.inputs = tuple(map(operands.index, given))
        operands.description.outputs = tuple(map(operands.index, graph.outputs))
    except NotWrittenError as error:
        refused.append(f"inputs and outputs: {error}")
    if refused:
        raise FormatError(
            "the network cannot be put into operations of the Android Neural Networks API",
            where=model.source_path or graph.name,
            why=refused,
            fix="run it as it is, or leave out what is named",
        )
    return operands.description


def _write(op: Op, operands: Operands) -> None:
    writer = WRITERS.find(op.label)
    if writer is None:
        raise NotWrittenError("no operation does this")
    if any(tensor is not None and tensor.is_variable for tensor in op.inputs):
        raise NotWrittenError("it keeps a state from run to run")
    writer(Written(op, operands))
