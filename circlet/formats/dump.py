"""A .tflite or .circle file as text, in the layout of ONE's `tfldump` and `circledump`.

Works on the file's tables, not on the IR, so that it shows what is stored: buffer numbers, both
shapes, operator codes and their versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from circlet.escape import escaped
from circlet.formats import located, open_reader
from circlet.formats.dump_options import option_line
from circlet.formats.flatbuffer import Reader, Table
from circlet.formats.read_op import OperatorCode, read_operator_code
from circlet.limits import DEFAULT_LIMITS, Limits

_WIDE = "=" * 67
_NARROW = "-" * 67
_SHOWN_BYTES = 16
_SHOWN_ELEMENTS = 4


def dump_text(path: Path, limits: Limits = DEFAULT_LIMITS) -> str:
    """The dump of a file.

    Raises:
        FileError, FormatError, LimitError: The file cannot be read.
    """
    reader = open_reader(path, limits)
    with located(path):
        lines = [f"Dump: {path}", "", *_model(reader)]
    return "\n".join(map(escaped, lines)) + "\n"


def dump_data(path: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, object]:
    """The tables of a file as plain data, buffers by their length."""
    reader = open_reader(path, limits)
    with located(path):
        root = reader.root("Model")
        fields = (field for field in root.spec.fields.values() if field.name != "buffers")
        values: dict[str, object] = {field.name: root.value(field) for field in fields}
        sizes = [_buffer(table, i).size for i, table in enumerate(root.tables("buffers"))]
    return {**values, "buffers": [{"length": size} for size in sizes]}


def _model(reader: Reader) -> Iterator[str]:
    root = reader.root("Model")
    codes = [read_operator_code(t, i) for i, t in enumerate(root.tables("operator_codes"))]
    yield _WIDE
    yield f"Model version: {root.integer('version')}"
    yield f" # sub graphs: {root.count('subgraphs')}"
    yield ""
    yield from _codes(codes, reader)
    yield from _buffers(root)
    yield from _metadata(root)
    yield from _signatures(root)
    for index, graph in enumerate(root.tables("subgraphs")):
        yield _NARROW
        yield f"Sub-Graph: #{index} {graph.text('name')}{_data_format(graph)}"
        yield ""
        yield from _subgraph(graph, index, codes)
    yield _WIDE


def _codes(codes: Sequence[OperatorCode], reader: Reader) -> Iterator[str]:
    numbers = reader.schema.enums["BuiltinOperator"].values
    yield "Operator Codes: [order] OpCodeName (OpCode Enum)"
    for index, code in enumerate(codes):
        known = f"(code: {numbers[code.kind]}, version: {code.version})"
        yield f"[{index}] {code.custom_code or code.kind} {known}"
    yield ""


def _buffers(root: Table) -> Iterator[str]:
    yield "Buffers: B(index) (length) values, if any"
    for index, table in enumerate(root.tables("buffers")):
        data = _buffer(table, index)
        yield f"B({index}) ({data.size}) {_hex(data)}"
    yield ""


def _buffer(table: Table, index: int) -> np.ndarray:
    """The bytes of a buffer, inside the flatbuffer or behind it."""
    start = table.integer("offset")
    if start <= 1:
        return table.blob("data")
    return table.file.span(start, table.integer("size"), f"buffer {index}")


def _hex(data: np.ndarray) -> str:
    """Bytes as C++ streams write them: width 2, the base shown, which zero has not."""
    shown = " ".join(f"{byte:#x}" if byte else "00" for byte in data[:_SHOWN_BYTES].tolist())
    return f"{shown} ..." if data.size > _SHOWN_ELEMENTS else shown


def _metadata(root: Table) -> Iterator[str]:
    if not root.count("metadata"):
        return
    yield "metadata : B(index) name"
    for table in root.tables("metadata"):
        yield f"B({table.integer('buffer')}) {table.text('name')}"
    yield ""


def _signatures(root: Table) -> Iterator[str]:
    if not root.count("signature_defs"):
        return
    yield "SignatureDef"
    for index, table in enumerate(root.tables("signature_defs")):
        graph = table.integer("subgraph_index")
        yield f"S({index}) key({table.text('signature_key')}), sub_graph({graph})"
        for letter, side in (("I", "inputs"), ("O", "outputs")):
            for position, entry in enumerate(table.tables(side)):
                tensor = f"T({graph}:{entry.integer('tensor_index')})"
                yield f"    {letter}({position}) {tensor} {entry.text('name')}"
    yield ""


def _data_format(graph: Table) -> str:
    if "data_format" not in graph.spec.fields:
        return ""
    return f" Data Format: {graph.enum('data_format')}"


def _subgraph(graph: Table, index: int, codes: Sequence[OperatorCode]) -> Iterator[str]:
    yield "Operands: T(subgraph index : tensor index) TYPE (shape) (shape_signature) " + (
        "B(buffer index) OperandName"
    )
    names = []
    for position, tensor in enumerate(graph.tables("tensors")):
        names.append(tensor.text("name"))
        yield from _tensor(tensor, f"T({index}:{position})")
    yield ""
    yield from _operators(graph, index, codes, names)
    yield "Inputs/Outputs: I(input)/O(output) T(tensor index) OperandName"
    for letter, side in (("I", "inputs"), ("O", "outputs")):
        for number in graph.ints(side):
            yield f"{letter} T({index}:{number}) {_name(names, number)}"
    yield ""


def _tensor(tensor: Table, label: str) -> Iterator[str]:
    words = [label, tensor.enum("type"), f"({_joined(tensor.ints('shape'))})"]
    if tensor.has("shape_signature"):
        words.append(f"({_joined(tensor.ints('shape_signature'))})")
    words.append(f"B({tensor.integer('buffer')})")
    if tensor.scalar("is_variable"):
        words.append("(variable)")
    yield f"{' '.join(words)} {tensor.text('name')}"
    quant = tensor.table("quantization")
    if quant is not None and quant.spec.fields:
        yield from _quantisation(quant)
    sparsity = tensor.table("sparsity")
    if sparsity is not None:
        yield from _sparsity(sparsity)


def _quantisation(quant: Table) -> Iterator[str]:
    names = {"min": "min", "max": "max", "scale": "scale", "zero_point": "zeropt"}
    found = {name: quant.array(name) for name in names if quant.has(name)}
    if not ({"min", "max"} <= found.keys() or {"scale", "zero_point"} <= found.keys()):
        return
    words = [f"{names[name]}({_vector(values.tolist())})" for name, values in found.items()]
    words.append(f"quantized_dimension({quant.integer('quantized_dimension')})")
    yield f"    Quantization: {' '.join(words)}"


def _sparsity(sparsity: Table) -> Iterator[str]:
    words = [f"{n}({_vector(sparsity.ints(n))})" for n in ("traversal_order", "block_map")]
    for index, dim in enumerate(sparsity.tables("dim_metadata")):
        words.append(f"dim_metadata[{index}]:")
        words.append(f"format({dim.enum('format')})")
        words.append(f"dense_size({dim.integer('dense_size')})")
        for name in ("array_segments", "array_indices"):
            table = dim.union(name)
            words.append(f"{name}_type({table.spec.name if table else 'NONE'})")
            words.append(f"{name}({_vector(table.array('values').tolist()) if table else ''})")
    yield f"    Sparsity: {' '.join(words)}"


def _operators(
    graph: Table, index: int, codes: Sequence[OperatorCode], names: Sequence[str]
) -> Iterator[str]:
    yield "Operators: O(subgraph index : operator index) OpCodeName"
    yield "    Option(values) ... <-- depending on OpCode"
    yield "    I T(tensor index) OperandName <-- as input"
    yield "    O T(tensor index) OperandName <-- as output"
    for position, op in enumerate(graph.tables("operators")):
        yield f"O({index}:{position}) {_code_name(codes, op)} "
        line = option_line(op)
        if line:
            yield f"    {line}"
        for letter, side in (("I", "inputs"), ("O", "outputs")):
            for number in op.ints(side):
                yield f"    {letter} T({index}:{number}) {_name(names, number)}"
    yield ""


def _code_name(codes: Sequence[OperatorCode], op: Table) -> str:
    index = op.integer("opcode_index")
    if index >= len(codes):
        return f"(no operator code {index})"
    return codes[index].custom_code or codes[index].kind


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if 0 <= index < len(names) else ""


def _joined(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _vector(values: Sequence[int | float]) -> str:
    """Up to four elements; of longer vectors their number first."""
    shown = ", ".join(f"{value:.6g}" for value in values[:_SHOWN_ELEMENTS])
    return f"({len(values)}) {shown} ... " if len(values) > _SHOWN_ELEMENTS else shown
