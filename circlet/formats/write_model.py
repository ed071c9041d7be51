"""A whole .tflite or .circle file: `circlet.ir.Model` to bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from circlet.errors import GraphError
from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.origin_tables import OP_TABLE, SOURCE_TABLE, write_origins, write_sources
from circlet.formats.schema import Schema
from circlet.formats.write_op import OperatorCodes, op_values
from circlet.formats.write_tensor import BufferPool, Values, refuse_unknown, tensor_values
from circlet.ir import Graph, Model, Signature, Tensor

INLINE_BYTES = 2**31 - 2**27

# What is kept of a file and stands elsewhere, or says nothing of another file.
_OWN_EXTRA = frozenset({"repeated_metadata", "external_files"})


def write_model(
    model: Model, schema: Schema, origins: bool, inline_bytes: int = INLINE_BYTES
) -> bytearray:
    """The file's bytes.

    Args:
        origins: Whether to write ONE's tables of source operators.
        inline_bytes: Constants of more bytes than this in sum follow the flatbuffer.
    """
    pool = BufferPool(_constant_bytes(model) > inline_bytes)
    codes = OperatorCodes(schema)
    indices = [_indices(graph) for graph in model.graphs]
    graphs = [
        _graph_values(graph, index_of, codes, model.graphs, pool, schema)
        for graph, index_of in zip(model.graphs, indices, strict=True)
    ]
    values: Values = {
        "version": schema.version,
        "operator_codes": codes.codes,
        "subgraphs": graphs,
        "description": model.description or None,
        "buffers": pool.buffers,
        "metadata": _metadata(model, pool, origins) or None,
        "signature_defs": [_signature(s, model, indices) for s in model.signatures] or None,
    }
    extra = {name: value for name, value in model.extra.items() if name not in _OWN_EXTRA}
    legacy = extra.pop("metadata_buffer", None)
    if isinstance(legacy, list):
        values["metadata_buffer"] = [pool.add(blob) for blob in legacy]
    return Writer(schema).finish("Model", refuse_unknown(values | extra, "Model", "", schema))


def _constant_bytes(model: Model) -> int:
    """Bytes of all constants, those that share their storage counted once."""
    arrays = {id(t.data): t.data for g in model.graphs for t in _tensors(g) if t.data is not None}
    return sum(array.nbytes for array in arrays.values())


def _tensors(graph: Graph) -> Iterable[Tensor]:
    """The graph's tensors in file order, then used ones that it does not list."""
    listed = dict.fromkeys(graph.tensors)
    listed.update(dict.fromkeys(graph.used_tensors()))
    listed.update(dict.fromkeys(t for op in graph.ops for t in op.intermediates))
    return listed


def _indices(graph: Graph) -> dict[Tensor, int]:
    return {tensor: index for index, tensor in enumerate(_tensors(graph))}


def _graph_values(
    graph: Graph,
    index_of: dict[Tensor, int],
    codes: OperatorCodes,
    graphs: Sequence[Graph],
    pool: BufferPool,
    schema: Schema,
) -> Values:
    values: Values = {
        "tensors": [tensor_values(tensor, index_of, pool, schema) for tensor in index_of],
        "inputs": [index_of[tensor] for tensor in graph.inputs],
        "outputs": [index_of[tensor] for tensor in graph.outputs],
        "operators": [
            op_values(op, codes.index(op), index_of, graphs, pool, schema) for op in graph.ops
        ],
        "name": graph.name or None,
    }
    return refuse_unknown(values | graph.extra, "SubGraph", graph.name, schema)


def _metadata(model: Model, pool: BufferPool, origins: bool) -> list[Values]:
    blobs = [*model.metadata.items(), *_repeated(model)]
    if origins:
        all_ops = [op for graph in model.graphs for op in graph.ops]
        blobs.append((SOURCE_TABLE, np.frombuffer(write_sources(all_ops), np.uint8)))
        blobs.append((OP_TABLE, np.frombuffer(write_origins(all_ops), np.uint8)))
    return [{"name": name, "buffer": pool.add(blob)} for name, blob in blobs]


def _repeated(model: Model) -> list[tuple[str, np.ndarray]]:
    repeated = model.extra.get("repeated_metadata", [])
    return repeated if isinstance(repeated, list) else []


def _signature(signature: Signature, model: Model, indices: list[dict[Tensor, int]]) -> Values:
    if signature.graph not in model.graphs:
        raise GraphError("a signature refers to a graph of another model", where=signature.key)
    place = model.graphs.index(signature.graph)
    index_of = indices[place]
    return {
        "inputs": _tensor_map(signature.inputs, index_of, signature.key),
        "outputs": _tensor_map(signature.outputs, index_of, signature.key),
        "signature_key": signature.key,
        "subgraph_index": place,
    }


def _tensor_map(
    names: dict[str, Tensor], index_of: dict[Tensor, int], key: str
) -> list[dict[str, object]]:
    missing = [name for name, tensor in names.items() if tensor not in index_of]
    if missing:
        raise GraphError(
            "a signature refers to a tensor of another graph", where=f"{key}: {missing[0]}"
        )
    return [{"name": name, "tensor_index": index_of[t]} for name, t in names.items()]
