"""Reads the text that `circlet.ir.text` prints."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import fields
from math import prod

import numpy as np

from circlet.errors import FormatError
from circlet.ir.dtype import DType
from circlet.ir.graph import Graph, Model, Op, RawAttrs, Signature, Tensor
from circlet.ir.origin import Origin, SourceOp
from circlet.ir.parse_tensor import parse_inline_data, parse_shape, parse_tensor
from circlet.ir.quant import link_blocks
from circlet.ir.regions import link_regions
from circlet.ir.requantization import Requantization
from circlet.ir.text_values import Cursor, parse_value

AttrsOf = Callable[[str], type | None]


def no_attributes(kind: str) -> type | None:
    """Knows no attribute class; raw attributes still work."""
    return None


def from_text(text: str, attrs_of: AttrsOf = no_attributes, source: str = "text") -> Model:
    """The model that a text describes.

    Args:
        attrs_of: The attribute class of an operator kind; `circlet.ops.text` binds the records.
        source: What the text is called in errors.

    Raises:
        FormatError: with line and column.
    """
    return _Parser(Cursor(text, source), attrs_of).model()


class _Parser:
    """One statement per line, by its first word."""

    def __init__(self, cursor: Cursor, attrs_of: AttrsOf) -> None:
        self.cursor, self.attrs_of = cursor, attrs_of
        self._model = Model([])
        self._scopes: list[_Scope] = []
        self._stored: list[tuple[Callable[[np.ndarray], None], str]] = []
        self._payloads: dict[str, np.ndarray] = {}
        self.calls: dict[Op, list[int]] = {}

    def model(self) -> Model:
        """Parse all statements."""
        while self.cursor.token.kind != "end":
            if self.cursor.token.kind != "newline":
                self._statement()
            self.cursor.end_line()
        self._fill()
        for scope in self._scopes:
            scope.finish()
        link_regions(self._model.graphs, self.calls)
        return self._model

    def _statement(self) -> None:
        if self.cursor.token.kind == "reference" or self.cursor.token.text == "_":
            self._scope().op(self)
            return
        statements = {
            "model": self._header,
            "graph": self._graph,
            "in": lambda: self._scope().input(self),
            "const": lambda: self._scope().declare(self),
            "tensor": lambda: self._scope().declare(self),
            "out": lambda: self._scope().output(self),
            "signature": self._signature,
            "metadata": self._metadata,
            "payload": self._payload,
        }
        statement = statements.get(self.cursor.token.text)
        if statement is None:
            self.cursor.fail(f"a statement expected: %result, {', '.join(statements)}")
        self.cursor.take()
        statement()

    def store(self, setter: Callable[[np.ndarray], None]) -> None:
        """Take a payload reference; the payload is set when all are known."""
        if self.cursor.token.text == "...":
            self.cursor.fail("the data of this constant was left out when the text was printed")
        self._stored.append((setter, self.cursor.take_kind("payload", "a payload")))

    def options(self, allowed: tuple[str, ...]) -> dict[str, object]:
        """`name=value` pairs up to something else."""
        found: dict[str, object] = {}
        while self.cursor.token.kind == "word" and self.cursor.token.text in allowed:
            name = self.cursor.take().text
            self.cursor.expect("=")
            found[name] = parse_value(self.cursor)
        return found

    def _scope(self) -> _Scope:
        if not self._scopes:
            self.cursor.fail("a line 'graph \"name\"' must come first")
        return self._scopes[-1]

    def _header(self) -> None:
        allowed = ("description", "source_format", "source_path", "extra")
        for name, value in self.options(allowed).items():
            if not isinstance(value, type(getattr(self._model, name))):
                self.cursor.fail(f"{name} has a value of the wrong type", back=1)
            setattr(self._model, name, value)

    def _graph(self) -> None:
        graph = Graph(self.cursor.string())
        extra = self.options(("extra",)).get("extra", {})
        if not isinstance(extra, dict):
            self.cursor.fail("extra must be a dictionary", back=1)
        graph.extra = extra
        self._model.graphs.append(graph)
        self._scopes.append(_Scope(graph))

    def _signature(self) -> None:
        key = self.cursor.string()
        self.cursor.expect("graph")
        index = self.cursor.integer()
        if not 0 <= index < len(self._scopes):
            self.cursor.fail("there is no such graph", back=1)
        scope = self._scopes[index]
        inputs = self._named(scope)
        self.cursor.expect("->")
        self._model.signatures.append(Signature(key, scope.graph, inputs, self._named(scope)))

    def _named(self, scope: _Scope) -> dict[str, Tensor]:
        def pair() -> tuple[str, Tensor]:
            key = self.cursor.string()
            self.cursor.expect(":")
            return key, scope.reference(self.cursor)

        self.cursor.expect("(")
        return dict(self.cursor.listed(")", pair))

    def _metadata(self) -> None:
        key, metadata = self.cursor.string(), self._model.metadata
        metadata[key] = np.zeros(0, np.uint8)
        self.cursor.expect("=")
        self.store(lambda array: metadata.__setitem__(key, array))

    def _payload(self) -> None:
        name = self.cursor.take_kind("payload", "a payload")
        kind = self._numpy_type()
        shape, _ = parse_shape(self.cursor)
        code = self.cursor.string()
        try:
            raw = base64.b64decode(code, validate=True)
        except (binascii.Error, ValueError):
            self.cursor.fail("a payload is not base64", back=1)
        sizes = tuple(-1 if size is None else size for size in shape)
        if min(sizes, default=0) < 0 or prod(sizes) * kind.itemsize != len(raw):
            self.cursor.fail("a payload does not fit its type and shape", back=1)
        self._payloads[name] = np.frombuffer(raw, kind).reshape(sizes)

    def _numpy_type(self) -> np.dtype[np.generic]:
        word = self.cursor.take_kind("word", "a numpy type")
        known = {dtype.value.lower(): dtype.numpy for dtype in DType if dtype.has_numpy}
        if word not in known:
            self.cursor.fail("there is no such numpy type", back=1)
        return known[word]

    def _fill(self) -> None:
        for setter, name in self._stored:
            if name not in self._payloads:
                where = f"{self.cursor.source}, {name}"
                raise FormatError("a payload is missing", where=where, why="the text was cut off")
            setter(self._payloads[name])


class _Scope:
    """One graph while its lines are read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._tensors: dict[str, Tensor] = {}
        self._positions: list[int | None] = []

    def input(self, parser: _Parser) -> None:
        """`in %x: TYPE`."""
        self.graph.inputs.append(self.declare(parser))

    def output(self, parser: _Parser) -> None:
        """`out %y, %z`."""
        cursor = parser.cursor
        while cursor.token.kind == "reference":
            self.graph.outputs.append(self.reference(cursor))
            if not cursor.accept(","):
                return

    def declare(self, parser: _Parser) -> Tensor:
        """A definition with data, if `=` follows."""
        tensor = self.define(parser)
        if not parser.cursor.accept("="):
            return tensor
        if parser.cursor.token.text == "[":
            tensor.data = parse_inline_data(tensor, parser.cursor)
        else:
            parser.store(lambda array: setattr(tensor, "data", array))
        return tensor

    def define(self, parser: _Parser) -> Tensor:
        """A definition, or the reference of something defined before."""
        cursor = parser.cursor
        name = cursor.take_kind("reference", "a tensor")
        if cursor.token.kind != "string" and cursor.token.text != ":":
            return self._known(name, cursor)
        if name in self._tensors:
            cursor.fail(f"{name} is defined twice", back=1)
        label = cursor.string() if cursor.token.kind == "string" else name[1:]
        tensor, position = parse_tensor(label, cursor, parser.options)
        self._tensors[name] = tensor
        self._positions.append(position)
        return tensor

    def op(self, parser: _Parser) -> None:
        """`%y: TYPE = KIND(%x, _) {attribute=value} from 0 "y"`."""
        cursor = parser.cursor
        outputs = [] if cursor.accept("_") else [self.define(parser)]
        while outputs and cursor.accept(","):
            outputs.append(self.define(parser))
        cursor.expect("=")
        kind = cursor.take_kind("word", "an operator kind")
        cursor.expect("(")
        inputs = cursor.listed(")", lambda: self._operand(cursor))
        attrs = _attributes(kind, parser)
        facts = parser.options(("version", "code", "requantization", "extra"))
        inner = self._intermediates(cursor)
        regions = self._regions(cursor)
        origin = _origin(cursor)
        version, code, extra = (
            facts.get("version", 1),
            facts.get("code", ""),
            facts.get("extra", {}),
        )
        if not (isinstance(version, int) and isinstance(code, str) and isinstance(extra, dict)):
            cursor.fail("version, code or extra has a value of the wrong type", back=1)
        if isinstance(attrs, dict):
            attrs = _made(f"CUSTOM:{code}", attrs, parser)
        op = Op(kind, inputs, outputs, attrs, origin, version, code, inner, extra)
        op.requantization = _requantization(facts, cursor)
        self.graph.ops.append(op)
        if regions:
            parser.calls[op] = regions

    def reference(self, cursor: Cursor) -> Tensor:
        """A tensor defined before."""
        return self._known(cursor.take_kind("reference", "a tensor"), cursor)

    def finish(self) -> None:
        """List the tensors at the positions given, or in the order of definition."""
        tensors = list(self._tensors.values())
        places = [i if at is None else at for i, at in enumerate(self._positions)]
        order = sorted(range(len(tensors)), key=places.__getitem__)
        self.graph.tensors = [tensors[index] for index in order]
        link_blocks(self.graph.tensors)

    def _known(self, name: str, cursor: Cursor) -> Tensor:
        if name not in self._tensors:
            cursor.fail(f"{name} is not defined before this place", back=1)
        return self._tensors[name]

    def _operand(self, cursor: Cursor) -> Tensor | None:
        return None if cursor.accept("_") else self.reference(cursor)

    def _intermediates(self, cursor: Cursor) -> list[Tensor]:
        if not cursor.accept("intermediates"):
            return []
        cursor.expect("(")
        return cursor.listed(")", lambda: self.reference(cursor))

    def _regions(self, cursor: Cursor) -> list[int]:
        if not cursor.accept("regions"):
            return []
        cursor.expect("(")
        return cursor.listed(")", cursor.integer)


def _requantization(facts: dict[str, object], cursor: Cursor) -> Requantization | None:
    stated = facts.get("requantization")
    if stated is None:
        return None
    rounding, bits = stated if isinstance(stated, tuple) and len(stated) == 2 else (None, None)
    if not isinstance(rounding, str) or not isinstance(bits, int):
        cursor.fail("requantization must be (rounding, accumulator bits)", back=1)
    return Requantization(rounding, bits)


def _origin(cursor: Cursor) -> Origin:
    cursor.expect("from")
    sources = [SourceOp(cursor.integer(), cursor.string())]
    while cursor.accept("+"):
        sources.append(SourceOp(cursor.integer(), cursor.string()))
    return Origin(tuple(sources))


def _attributes(kind: str, parser: _Parser) -> object:
    """The attributes; those of a custom operator as pairs, for its code stands behind them."""
    cursor = parser.cursor
    if cursor.accept("raw"):
        return _raw_attributes(cursor)
    values = dict(_attribute_list(cursor)) if cursor.accept("{") else {}
    return values if kind == "CUSTOM" else _made(kind, values, parser)


def _made(kind: str, values: dict[str, object], parser: _Parser) -> object:
    cursor, known = parser.cursor, parser.attrs_of(kind)
    if known is None:
        if values:
            cursor.fail(f"{kind} has no record, so its attributes must be raw(...)", back=1)
        return None
    unknown = sorted(values.keys() - {field.name for field in fields(known)})
    if unknown:
        cursor.fail(f"{kind} has no attribute {unknown[0]}", back=1)
    try:
        return known(**values)
    except TypeError as error:
        cursor.fail(f"{kind}: {error}", back=1)


def _attribute_list(cursor: Cursor) -> list[tuple[str, object]]:
    def attribute() -> tuple[str, object]:
        name = cursor.take_kind("word", "an attribute")
        cursor.expect("=")
        return name, parse_value(cursor)

    return cursor.listed("}", attribute)


def _raw_attributes(cursor: Cursor) -> RawAttrs:
    cursor.expect("(")
    table, values, *custom = [*cursor.listed(")", lambda: parse_value(cursor)), None, None][:3]
    if not isinstance(table, str) or not isinstance(values, dict):
        cursor.fail("raw attributes are a table name, fields and bytes", back=1)
    return RawAttrs(table, values, custom[0] if isinstance(custom[0], bytes) else b"")
