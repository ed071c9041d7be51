"""Operators: `circlet.ir.Op` to table values and a list of operator codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet import ops
from circlet.errors import FormatError, GraphError
from circlet.formats.options import codec_of, decode_custom, encode_custom
from circlet.formats.options.regions import graph_fields
from circlet.formats.schema import Schema
from circlet.formats.write_tensor import BufferPool, Values, refuse_unknown
from circlet.ir import Graph, Op, RawAttrs, Tensor
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.requantization import is_default

_PLACEHOLDER_CODE = 127
_OWN_KEYS = ("options", "options_table", "custom_options")


class OperatorCodes:
    """The file's operator codes, each distinct one once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.codes: list[Values] = []
        self._known: dict[tuple[str, str, int], int] = {}

    def index(self, op: Op) -> int:
        """Index of the operator's code."""
        key = (op.kind, op.custom_code, op.version)
        if key not in self._known:
            self._known[key] = len(self.codes)
            self.codes.append(self._values(op))
        return self._known[key]

    def _values(self, op: Op) -> Values:
        code = self.schema.enums["BuiltinOperator"].values.get(op.kind)
        if code is None:
            raise FormatError(
                f"an operator cannot be stored in a .{self.schema.name} file",
                where=f"{op.name} ({op.label})",
                why=f"{op.kind} is unknown there",
            )
        return {
            "deprecated_builtin_code": min(code, _PLACEHOLDER_CODE),
            "builtin_code": code,
            "custom_code": op.custom_code or None,
            "version": op.version,
        }


def op_values(
    op: Op,
    code: int,
    index_of: Mapping[Tensor, int],
    graphs: Sequence[Graph],
    pool: BufferPool,
    schema: Schema,
) -> Values:
    """The fields of an operator table; `graphs` are those of the model that is written."""
    where = f"{op.name} ({op.label})"
    _refuse_other_rounding(op, where)
    values: Values = {
        "opcode_index": code,
        "inputs": [-1 if t is None else _index(index_of, t, where) for t in op.inputs],
        "outputs": [_index(index_of, t, where) for t in op.outputs],
        "intermediates": [_index(index_of, t, where) for t in op.intermediates] or None,
    }
    custom = _custom_options(op)
    if isinstance(custom, bytes):
        values |= pool.custom_options(custom)
    values |= _options(op, graphs, where, schema)
    values |= {name: value for name, value in op.extra.items() if name not in _OWN_KEYS}
    return refuse_unknown(values, "Operator", where, schema)


def _custom_options(op: Op) -> object:
    """The option bytes of a custom operator: those that were read, or made of its attributes."""
    if isinstance(op.attrs, RawAttrs):
        return op.attrs.custom
    kept = None if isinstance(op.attrs, OnnxAttrs) else op.extra.get("custom_options")
    encode = encode_custom(op.custom_code) if op.custom_code else None
    return encode(op) if kept is None and encode is not None else kept


def _refuse_other_rounding(op: Op, where: str) -> None:
    if not is_default(op):
        raise FormatError(
            "how an operator requantises cannot be stored",
            where=where,
            why=f"files mean what LiteRT does, not {op.requantization}",
        )


def _index(index_of: Mapping[Tensor, int], tensor: Tensor, where: str) -> int:
    if tensor not in index_of:
        raise GraphError("an operator refers to a tensor of another graph", where=where)
    return index_of[tensor]


def _options(op: Op, graphs: Sequence[Graph], where: str, schema: Schema) -> Values:
    """The union field that holds the operator's options."""
    table, fields = _options_table(op, schema)
    if op.regions:
        fields |= graph_fields(table, _numbers(op, graphs, where))
    if not table:
        return {}
    for union in ("builtin_options", "builtin_options2"):
        field = schema.tables["Operator"].fields[union]
        if field.enum is not None and table in field.enum.values:
            known = _storable(fields, table, where, schema)
            return {union: {"table": table, **known}}
    raise FormatError(
        f"an operator's options cannot be stored in a .{schema.name} file",
        where=where,
        why=f"{table} is unknown there",
    )


def _numbers(op: Op, graphs: Sequence[Graph], where: str) -> list[int]:
    """The numbers that the graphs that an op runs have in this model."""
    places = {graph: index for index, graph in enumerate(graphs)}
    if any(region not in places for region in op.regions):
        raise GraphError("an operator runs a graph of another model", where=where)
    return [places[region] for region in op.regions]


def _options_table(op: Op, schema: Schema) -> tuple[str, Values]:
    if isinstance(op.attrs, RawAttrs):
        return op.attrs.table, dict(op.attrs.fields)
    record = ops.find(op.label)
    if record is None or decode_custom(op.custom_code) is not None:
        return "", {}
    codec, rest = codec_of(op.kind, schema.name), op.extra.get("options", {})
    kept = dict(rest) if isinstance(rest, Mapping) else {}
    return str(op.extra.get("options_table", codec.table)), codec.encode(record.attrs, op) | kept


def _storable(fields: Values, table: str, where: str, schema: Schema) -> Values:
    """The fields without those that are unset and that this schema or an older one lacks."""
    required = schema.tables[table].fields
    return refuse_unknown(
        {name: value for name, value in fields.items() if name in required or value not in (0, ())},
        table,
        where,
        schema,
    )
