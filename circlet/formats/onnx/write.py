"""A whole .onnx file: `circlet.ir.Model` to bytes."""

from __future__ import annotations

import numpy as np

from circlet.errors import CircletError, FormatError, InputError, LimitError
from circlet.formats.onnx import writers  # noqa: F401  (fills the table)
from circlet.formats.onnx.notes import SIGNATURES, blob_text, signatures_text
from circlet.formats.onnx.protos import WRITTEN_TYPES, Messages, Names, name_nodes, name_values
from circlet.formats.onnx.stated_sizes import complete_sizes
from circlet.formats.onnx.writers.nodes import OPSET
from circlet.formats.onnx.writing import WRITERS, Written
from circlet.formats.onnx.written_graph import Body, NotWrittenError, Value, WrittenGraph
from circlet.ir import DType, Graph, Model, Op, Origin, Tensor
from circlet.ir.copy import copy_of
from circlet.ir.regions import most_copies
from circlet.ops import unsupported_reason

OPSET_OF_WIDE = 21  # the first that quantises to 4 and 16 bits
COMPLEX_KINDS = frozenset({"COMPLEX_ABS", "REAL", "IMAG", "RESHAPE"})
IR_VERSION = 10  # the first whose nodes have metadata


def write_onnx(model: Model, origins: bool) -> bytes:
    """The file's bytes.

    Args:
        origins: Whether nodes say which operators of the user's file they descend from.

    Raises:
        InputError: The package `onnx` is not installed.
        FormatError: No operators of ONNX say what some of the network's do; all are named.
        LimitError: Graphs that run each other come to too many operators.
    """
    _check_package()
    model = copy_of(model)
    for tensor in model.main.inputs:  # a file that states no sizes means a single number
        tensor.has_rank = True
    complete_sizes(model.main)
    graph, refused = WrittenGraph(), list[str]()
    graph.most_ops = most_copies(sum(len(part.ops) for part in model.graphs))
    for tensor in model.main.inputs:
        if tensor.data is None:
            value = Value(tensor.name or "input", is_given=True)
            graph.body.inputs.append((value, tensor))
            graph.make(tensor, value)
    for op in model.main.ops:
        write_op(op, graph, refused)
    if not refused:
        _give_outputs(model.main, graph, refused)
    refused += _ends_without_type(model.main)
    if refused:
        raise FormatError(
            "the network cannot be put into operators of ONNX",
            where=model.source_path or model.main.name,
            why=refused,
            fix="keep it as .tflite or .circle, or cut out what is named with `circlet cut`",
        )
    name_values(graph.body, Names())
    name_nodes(graph.body.nodes, Names())
    return _message(model, graph, origins)


def write_op(op: Op, graph: WrittenGraph, refused: list[str]) -> None:
    """Put the nodes of an operator into a graph, or why there are none into `refused`."""
    graph.origin = op.origin
    graph.count_op()
    try:
        writer = WRITERS.find(op.label) or WRITERS.find(op.label.partition(":")[0])
        if writer is None:
            raise NotWrittenError("no operator of ONNX does this")
        _check(op)
        writer(Written(op, graph))
    except NotWrittenError as error:
        refused.append(f"{op.name} ({op.label}): {error}")
    except LimitError:
        raise
    except CircletError as error:
        refused.append(f"{op.name} ({op.label}): {error.what}")
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
        refused.append(f"{op.name} ({op.label}): its operands and options do not fit: {error}")
    else:
        return
    for tensor in op.outputs:  # what reads it is looked at, too
        graph.make(tensor, Value(tensor.name))


def _check(op: Op) -> None:
    given = [tensor for tensor in op.inputs if tensor is not None]
    if any(tensor.is_variable for tensor in given):
        raise NotWrittenError("it keeps a state from run to run")
    if op.kind not in COMPLEX_KINDS and any(t.dtype is DType.COMPLEX64 for t in given):
        raise NotWrittenError("complex numbers are only written between transforms and magnitudes")
    reason = None if any(map(_is_packed, given)) else unsupported_reason(op)
    if reason is not None:
        raise NotWrittenError(reason)


def _is_packed(tensor: Tensor) -> bool:
    """Whether it is a constant in a form that records read unpacked."""
    return tensor.is_constant and (tensor.dtype.is_small or tensor.sparsity is not None)


def _ends_without_type(main: Graph) -> list[str]:
    """Why inputs and outputs cannot be said, each by its name."""
    if not main.outputs:
        return ["the network has no outputs"]
    missing = [t for t in (*main.inputs, *main.outputs) if t.dtype not in WRITTEN_TYPES]
    return [
        f"{tensor.name}: ONNX tensors are not of type {tensor.dtype.name}" for tensor in missing
    ]


def _give_outputs(main: Graph, graph: WrittenGraph, refused: list[str]) -> None:
    graph.origin = main.ops[-1].origin if main.ops else Origin.of(0, main.name or "main")
    given: set[Value] = set()
    try:
        for number, tensor in enumerate(main.outputs):
            value = graph.value(tensor)
            if value.is_given or value.data is not None or value in given:
                value = graph.node("Identity", [value], [tensor.name], {})[0]
            value.name = tensor.name or f"output_{number}"
            given.add(value)
            graph.body.outputs.append((value, tensor))
    except NotWrittenError as error:
        refused.append(f"outputs: {error}")


def _check_package() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise InputError(
            ".onnx files are written with the package onnx, which is not installed",
            fix="pip install 'circlet[onnx]'",
        ) from None


def _message(model: Model, graph: WrittenGraph, origins: bool) -> bytes:
    from google.protobuf.message import EncodeError

    messages = Messages(origins)
    proto = messages.model
    proto.ir_version, proto.producer_name = IR_VERSION, "circlet"
    proto.doc_string = model.description
    proto.graph.name = model.main.name or "main"
    entry = proto.opset_import.add()
    entry.domain, entry.version = "", _opset(graph.body)
    for domain in sorted({node.domain for node in graph.body.nodes} - {""}):
        entry = proto.opset_import.add()
        entry.domain, entry.version = domain, 1
    for name, text in _metadata(model).items():
        prop = proto.metadata_props.add()
        prop.key, prop.value = name, text
    try:
        messages.graph(graph.body, proto.graph)
        return bytes(proto.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise FormatError(
            "the network does not fit into one .onnx file",
            where=model.source_path or model.main.name,
            why=str(error),
            fix="keep it as .circle, which may be larger than 2 GiB",
        ) from None


def _opset(body: Body) -> int:
    """The operator set that says everything: newer ones only where they are needed.

    ONNX Runtime reads fewer networks of 8 bits in the newer form of QuantizeLinear.
    """
    narrow = frozenset({np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int32)})
    for node in body.nodes:
        if node.kind in ("QuantizeLinear", "DequantizeLinear"):
            zero = node.inputs[2] if len(node.inputs) > 2 else None
            if zero is not None and zero.data is not None and zero.data.dtype not in narrow:
                return OPSET_OF_WIDE
            if "block_size" in node.attributes:
                return OPSET_OF_WIDE
        inner = [_opset(part) for part in node.attributes.values() if isinstance(part, Body)]
        if OPSET_OF_WIDE in inner:
            return OPSET_OF_WIDE
    return OPSET


def _metadata(model: Model) -> dict[str, str]:
    found = {name: blob_text(blob) for name, blob in model.metadata.items()}
    said = signatures_text(model)
    return found | {SIGNATURES: said} if said else found
