"""A whole .tflite or .circle file: bytes to `circlet.ir.Model`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from circlet.errors import FormatError, GraphError, LimitError
from circlet.formats import schema
from circlet.formats.associated_files import read_associated_files
from circlet.formats.flatbuffer import Reader, Table
from circlet.formats.micro_tables import ENTRY as TABLES
from circlet.formats.micro_tables import MicroTable, read_micro_tables
from circlet.formats.origin_tables import OP_TABLE, SOURCE_TABLE, read_origins, read_sources
from circlet.formats.read_op import read_op, read_operator_code
from circlet.formats.read_tensor import (
    extra_fields,
    mark_empty_constants,
    read_tensor,
)
from circlet.formats.tflite_metadata import ENTRY
from circlet.ir import Graph, Model, Op, Origin, Signature, Tensor
from circlet.ir.order import check_producers, order
from circlet.ir.quant import link_blocks
from circlet.ir.regions import call_depth, link_regions
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.micro_decode import MICRO_DECODE
from circlet.words import counted

_MODEL_FIELDS = {
    *("version", "description", "operator_codes", "subgraphs", "buffers"),
    *("metadata_buffer", "metadata", "signature_defs"),
}
_GRAPH_FIELDS = {"tensors", "inputs", "outputs", "operators", "name"}
# Converters from TFLite may leave its number in a .circle file.
_VERSIONS = {"tflite": (3,), "circle": (0, 3)}
# How the fields of an .onnx file that may come second begin, each a text or a message.
_ARTIFACT = b"CIRCLETA"  # as circlet.artifact.file, a room above, has it
_ONNX_FIELDS = (b"\x12", b"\x1a", b"\x22", b"\x32", b"\x3a", b"\x42")
_SUPPRESSION_RANKS = {"NON_MAX_SUPPRESSION_V4": (1, 0), "NON_MAX_SUPPRESSION_V5": (1, 1, 0)}
_EXPORT = "export the network as .tflite or .onnx"
_OTHERS: tuple[tuple[bytes | tuple[bytes, ...], str], ...] = (
    (
        _ARTIFACT,
        "it is an artifact: code that was compiled already, which runs only where asked for",
    ),
    (b"\x89HDF", f"it is an .h5 file, as Keras writes them: {_EXPORT}"),
    (b"PK\x03\x04", f"it is a zip archive: unpack it; of a .keras or .pt file, {_EXPORT}"),
    (b"\x80", f"it is a pickle, as PyTorch writes them: {_EXPORT}"),
    (b"GGUF", f"it is a .gguf file, as llama.cpp reads them: {_EXPORT}"),
    ((b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM"), "it is a picture, which --input takes"),
    ((b"RIFF", b"fLaC", b"OggS", b"ID3"), "it is a sound, which --input takes"),
    ((b"<!doctype", b"<html", b"<head", b"<?xml"), "it is a web page; the download went wrong"),
    (b"version https://git-lfs", "it is a Git LFS pointer; fetch the file with git lfs pull"),
    ((b"\x1f\x8b", b"BZh", b"\xfd7zXZ"), "it is compressed; unpack it first"),
)
"""How other files begin, and what is said of them."""
OriginOf = Callable[[int, str], Origin]


def read_model(data: memoryview, limits: Limits = DEFAULT_LIMITS) -> Model:
    """The model that the bytes hold; its constants are views into them."""
    reader = open_tables(data, limits)
    root = reader.root("Model")
    version = root.integer("version")
    known = _VERSIONS[reader.schema.name]
    if version not in known:
        raise FormatError(
            f"version {version} of the {reader.schema.name} format is not known",
            why=f"known is {' or '.join(map(str, known))}",
        )
    model = _Importer(reader, root).model()
    _check_depth(model, limits)
    if ENTRY in model.metadata:
        model.associated_files, model.associated_files_problem = read_associated_files(data)
    return model


def _check_depth(model: Model, limits: Limits) -> None:
    depth = call_depth(model)
    if depth > limits.call_depth:
        raise LimitError(
            "graphs call each other too deeply",
            why=f"{counted(depth, 'level')}, the limit is {limits.call_depth}",
        )


def open_tables(data: memoryview, limits: Limits = DEFAULT_LIMITS) -> Reader:
    """A reader of the tables that the bytes hold."""
    limits.check_file(len(data))
    known = schema.by_identifier(bytes(data[4:8]))
    if known is None:
        raise unknown_file(data)
    return Reader(data, known, limits)


def unknown_file(data: memoryview) -> FormatError:
    """The error for bytes that are no model file; it says what they seem to be."""
    head = bytes(data[:512])
    return FormatError(
        "this is no .tflite or .circle file" if _is_onnx(head) else "this is no model file",
        why=_looks_like(head),
        fix=_fix_of(head),
    )


def _fix_of(head: bytes) -> str:
    if head.startswith(_ARTIFACT):
        return (
            "if you trust who made it, run it: `circlet run`, with --artifact where its name does "
            "not end in .circlet, or circlet.load_artifact(path); else give the model itself"
        )
    if _is_onnx(head):
        return "`circlet dump --text` or --stage prints it, `circlet convert` makes a .circle of it"
    return "give the model file itself"


def _looks_like(head: bytes) -> str:
    """What a file that is no model seems to be."""
    if not head:
        return "it is empty"
    if _is_onnx(head):
        return "it is an .onnx file, which has no tables"
    if head[8:10] == b'{"':
        return f"it is a .safetensors file, which holds weights and no network: {_EXPORT}"
    text = head.lstrip().lower()
    for beginnings, said in _OTHERS:
        if head.startswith(beginnings) or text.startswith(beginnings):
            return said
    return (
        f"bytes 4 to 8 are {head[4:8]!r}, not TFL3 of a .tflite file or CIR0 of a .circle file, "
        "and it does not begin as .onnx files do"
    )


def _is_onnx(head: bytes) -> bool:
    return head[:1] == b"\x08" and head[2:3] in _ONNX_FIELDS


class _Importer:
    """State of one import: the file's buffers, codes and origins."""

    def __init__(self, reader: Reader, root: Table) -> None:
        self.reader, self.root = reader, root
        self.buffers = [_buffer(table, i) for i, table in enumerate(root.tables("buffers"))]
        self.codes = [
            read_operator_code(table, i) for i, table in enumerate(root.tables("operator_codes"))
        ]
        self.metadata: dict[str, np.ndarray] = {}
        self.repeated = list(self._read_metadata())
        self.origin = self._origins()
        self.tables = self._tables()
        self.op_count = 0
        self.calls: dict[Op, list[int]] = {}

    def model(self) -> Model:
        limits = self.reader.limits
        if self.root.count("subgraphs") > limits.subgraphs:
            raise LimitError("the file has too many graphs", why=f"limit {limits.subgraphs}")
        graphs = [self._graph(t, i) for i, t in enumerate(self.root.tables("subgraphs"))]
        if not graphs:
            raise GraphError("the file holds no graph", why="its list of subgraphs is empty")
        link_regions(graphs, self.calls)
        return Model(
            graphs,
            self.root.text("description"),
            [_signature(table, graphs) for table in self.root.tables("signature_defs")],
            self.metadata,
            self.reader.schema.name,
            extra=self._extra(),
        )

    def _extra(self) -> dict[str, object]:
        legacy = [self._blob(index) for index in self.root.ints("metadata_buffer")]
        kept: dict[str, object] = {"metadata_buffer": legacy, "repeated_metadata": self.repeated}
        unread = extra_fields(self.root, _MODEL_FIELDS, "Model")
        return unread | {name: value for name, value in kept.items() if value}

    def _graph(self, table: Table, index: int) -> Graph:
        limits = self.reader.limits
        where = table.text("name") or f"subgraph {index}"
        if table.count("tensors") > limits.tensors:
            raise LimitError("a graph has too many tensors", where=where)
        values = self.tables[index] if index < len(self.tables) else {}
        tensors = [
            read_tensor(t, i, self.buffers, values.get(i))
            for i, t in enumerate(table.tables("tensors"))
        ]
        link_blocks(tensors)
        graph = Graph(
            table.text("name"),
            [_graph_tensor(tensors, i, f"input of {where}") for i in table.ints("inputs")],
            [_graph_tensor(tensors, i, f"output of {where}") for i in table.ints("outputs")],
            tensors=tensors,
            extra=extra_fields(table, _GRAPH_FIELDS, where),
        )
        self._read_ops(graph, table)
        check_producers(graph)
        order(graph)
        return graph

    def _read_ops(self, graph: Graph, table: Table) -> None:
        for operator in table.tables("operators"):
            if self.op_count >= self.reader.limits.ops:
                raise LimitError("the file has too many operators", why=f"{self.op_count}")
            op, runs = read_op(operator, self.op_count, self.codes, graph.tensors, self.origin)
            graph.ops.append(op)
            _forget_scales(op)
            _forget_batch(op)
            if runs:
                self.calls[op] = runs
            self.op_count += 1
        written = {tensor: op for op in graph.ops for tensor in op.outputs}
        for tensor, op in written.items():
            if not _gives_start(op):
                tensor.is_variable = False  # each run computes it anew, whatever the file says
        mark_empty_constants(graph.tensors, {*written, *graph.inputs})

    def _read_metadata(self) -> Iterator[tuple[str, np.ndarray]]:
        """Fill `metadata`; yields what bears a name that an earlier entry has."""
        for table in self.root.tables("metadata"):
            name, blob = table.text("name"), self._blob(table.integer("buffer"))
            if self.metadata.setdefault(name, blob) is not blob:
                yield name, blob

    def _blob(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self.buffers):
            raise FormatError(
                "metadata refers to a buffer that does not exist",
                why=f"buffer {index} of {len(self.buffers)}",
            )
        return self.buffers[index]

    def _tables(self) -> list[dict[int, MicroTable]]:
        """The tables of values of each graph's tensors that TFLite Micro's metadata names."""
        blob = self.metadata.pop(TABLES, None)
        return [] if blob is None else read_micro_tables(blob, self.buffers, self.reader.limits)

    def _origins(self) -> OriginOf:
        """How an operator gets its origin: from ONE's tables, else from its place in the file."""
        if SOURCE_TABLE not in self.metadata or OP_TABLE not in self.metadata:
            return Origin.of
        sources = read_sources(self.metadata.pop(SOURCE_TABLE))
        known = read_origins(self.metadata.pop(OP_TABLE), sources)
        first_free = max(sources, default=-1) + 1
        return lambda index, name: known.get(index) or Origin.of(first_free + index, name)


def _buffer(table: Table, index: int) -> np.ndarray:
    """Bytes of one buffer, inside the flatbuffer or behind it."""
    start = table.integer("offset")
    if start <= 1:
        return table.blob("data")
    return table.file.span(start, table.integer("size"), f"buffer {index}")


def _graph_tensor(tensors: list[Tensor], index: int, where: str) -> Tensor:
    if not 0 <= index < len(tensors):
        raise GraphError(
            "a graph's inputs or outputs name a tensor that does not exist",
            where=where,
            why=f"tensor {index} of {len(tensors)}",
        )
    return tensors[index]


def _signature(table: Table, graphs: list[Graph]) -> Signature:
    key, index = table.text("signature_key"), table.integer("subgraph_index")
    if index >= len(graphs):
        raise GraphError(
            "a signature refers to a graph that does not exist",
            where=key,
            why=f"subgraph {index} of {len(graphs)}",
        )
    graph = graphs[index]
    ends = [
        {
            entry.text("name"): _graph_tensor(
                graph.tensors, entry.integer("tensor_index"), f"signature {key}"
            )
            for entry in table.tables(side)
        }
        for side in ("inputs", "outputs")
    ]
    return Signature(key, graph, *ends)


def _forget_scales(op: Op) -> None:
    """Compressors leave the scales of what is decoded at the bytes that it is decoded from."""
    if op.label == f"CUSTOM:{MICRO_DECODE}":
        for tensor in filter(None, op.inputs):
            tensor.quant = None


def _forget_batch(op: Op) -> None:
    """Exporters declare what suppression gives with axes of a batch, which the operator lacks."""
    for tensor, rank in zip(op.outputs, _SUPPRESSION_RANKS.get(op.kind, ()), strict=False):
        extra = len(tensor.shape) - rank
        if extra > 0 and set(tensor.shape[:extra]) == {1}:
            tensor.shape, tensor.default_shape = tensor.shape[extra:], None


def _gives_start(op: Op) -> bool:
    """Whether an op runs before the first run only, as LiteRT has it: a variable may start so."""
    source = op.input(0) if op.inputs else None
    return op.kind == "DEQUANTIZE" and source is not None and source.is_constant
