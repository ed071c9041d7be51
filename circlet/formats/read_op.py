"""Operators: flatbuffer tables to `circlet.ir.Op`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from circlet import ops
from circlet.errors import FormatError, GraphError
from circlet.formats.flatbuffer import Table, Value
from circlet.formats.options import codec_of, decode_custom
from circlet.formats.options.regions import GRAPH_FIELDS, graph_numbers
from circlet.formats.origin_tables import own_name
from circlet.formats.read_tensor import extra_fields
from circlet.ir import Op, Origin, RawAttrs, Tensor
from circlet.ops.requantization import litert_requantization

_READ = {
    *("opcode_index", "inputs", "outputs", "intermediates", "builtin_options", "builtin_options2"),
    *("custom_options", "large_custom_options_offset", "large_custom_options_size"),
}


@dataclass(frozen=True)
class OperatorCode:
    """One entry of the file's operator code list."""

    kind: str
    custom_code: str
    version: int


def read_operator_code(table: Table, index: int) -> OperatorCode:
    """One operator code, whichever of the two code fields holds it."""
    old, new = table.integer("deprecated_builtin_code"), table.integer("builtin_code")
    code = old if old < 0 else new if new < 0 else max(old, new)
    kind = table.file.schema.enums["BuiltinOperator"].names.get(code)
    if kind is None or kind == "PLACEHOLDER_FOR_GREATER_OP_CODES":
        raise FormatError(
            "an operator code is unknown",
            where=f"operator code {index}",
            why=f"the {table.file.schema.name} schema has no builtin operator {code}",
            fix="the file was made for a newer schema, or is damaged",
        )
    return OperatorCode(kind, table.text("custom_code"), table.integer("version"))


def read_op(
    table: Table,
    index: int,
    codes: Sequence[OperatorCode],
    tensors: Sequence[Tensor],
    origin: Callable[[int, str], Origin],
) -> tuple[Op, list[int]]:
    """One operator and the numbers of the graphs that it runs.

    `origin` makes its origin from its running index and name.
    """
    number = table.integer("opcode_index")
    if number >= len(codes):
        raise FormatError(
            "an operator refers to an operator code that does not exist",
            where=f"operator {index}",
            why=f"code {number} of {len(codes)}",
        )
    code = codes[number]
    outputs = [_tensor(tensors, i, index, code.kind) for i in table.ints("outputs")]
    name = own_name(code.kind, outputs, index)
    where = f"{name} ({code.kind})"
    op = Op(
        code.kind,
        [None if i == -1 else _tensor(tensors, i, index, where) for i in table.ints("inputs")],
        outputs,
        None,
        origin(index, name),
        version=code.version,
        custom_code=code.custom_code,
        intermediates=[
            _tensor(tensors, i, index, where) for i in table.ints("intermediates") if i != -1
        ],
        extra=extra_fields(table, _READ, where),
    )
    op.requantization = litert_requantization(op) if outputs else None
    return op, _read_attrs(op, table, where)


def _tensor(tensors: Sequence[Tensor], index: int, op_index: int, where: str) -> Tensor:
    if not 0 <= index < len(tensors):
        raise GraphError(
            "an operator refers to a tensor that does not exist",
            where=f"operator {op_index}, {where}",
            why=f"tensor {index} of {len(tensors)}",
        )
    return tensors[index]


def _read_attrs(op: Op, table: Table, where: str) -> list[int]:
    """Set `attrs`: the record's dataclass where the kind has one, else the raw fields.

    Gives the numbers of the graphs that the op runs.
    """
    options = table.union("builtin_options") or table.union("builtin_options2")
    custom = _custom_options(table, where)
    record = ops.find(op.label)
    if record is None:
        return _keep_fields(op, options, custom, where)
    if custom:
        op.extra["custom_options"] = custom
    decode = decode_custom(op.custom_code)
    if decode is None:
        return _read_record_attrs(op, record, table, options, where)
    op.attrs = decode(custom)
    return []


def _keep_fields(op: Op, options: Table | None, custom: bytes, where: str) -> list[int]:
    name = options.spec.name if options else ""
    fields: dict[str, object] = dict(options.unpack(where)) if options else {}
    numbers = list(graph_numbers(name, fields))
    for field in GRAPH_FIELDS.get(name, ()):
        fields.pop(field, None)
    op.attrs = RawAttrs(name, fields, custom)
    return numbers


def _read_record_attrs(
    op: Op, record: ops.OpDef, table: Table, options: Table | None, where: str
) -> list[int]:
    codec = codec_of(op.kind, table.file.schema.name)
    name = options.spec.name if options else codec.table
    if codec.table and name != codec.table:
        raise FormatError(
            "an operator carries the options of another kind",
            where=where,
            why=f"{name} instead of {codec.table}",
        )
    absent = _defaults(table, name)
    fields = options.unpack(where) if options else absent
    op.attrs = codec.decode(record.attrs, fields)
    known = codec.fields(record.attrs) | set(GRAPH_FIELDS.get(name, ()))
    rest = {key: value for key, value in fields.items() if key not in known}
    if any(rest[key] != value for key, value in absent.items() if key in rest):
        op.extra["options"] = rest
    if options and not codec.table:
        op.extra["options_table"] = name
    return list(graph_numbers(name, fields))


def _defaults(table: Table, name: str) -> Mapping[str, Value]:
    """The values that the fields of an options table have when it is missing."""
    known = table.file.defaults
    if name not in known:
        spec = table.file.schema.tables[name] if name else None
        known[name] = Table(table.file, spec, 0, 0, ()).unpack() if spec else {}
    return known[name]


def _custom_options(table: Table, where: str) -> bytes:
    """Option bytes of a custom operator, stored in the table or behind the flatbuffer."""
    start = table.integer("large_custom_options_offset")
    if start:
        size = table.integer("large_custom_options_size")
        return table.file.span(start, size, f"options of {where}").tobytes()
    return table.blob("custom_options").tobytes()
