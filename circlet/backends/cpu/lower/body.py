"""Prints the C body of an element-wise kernel from scalar expressions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlet.ir import DType
from circlet.ops.expr import Call, Const, Expr, Number, Param, Scalar, Var, leaves, to_c
from circlet.ops.fused import MOST_FLOATS, MOST_INTS

ELEMENT_TYPES = {
    DType.FLOAT32: "ELEMENT_F32",
    DType.INT8: "ELEMENT_I8",
    DType.UINT8: "ELEMENT_U8",
    DType.INT16: "ELEMENT_I16",
    DType.INT32: "ELEMENT_I32",
}
# Types that expressions load and store; bytes of booleans are 0 or 1.
EXPRESSION_TYPES = {
    **ELEMENT_TYPES,
    DType.BOOL: "ELEMENT_U8",
    DType.INT64: "ELEMENT_I64",
}
_LOADED_KINDS = {DType.FLOAT32: "f32", DType.INT64: "i64"}
_DIVISIONS = ("div_trunc", "floor_div", "floor_mod", "pow")
_SPELLINGS = {"expm1": "elementwise_expm1({0})"}
_VECTORS = {"f32": "vf", "i32": "vi", "i64": "wl", "mask": "vi"}
_LIMITS = {"i32": MOST_INTS, "f32": MOST_FLOATS}
_ARRAYS = {"i32": "ints", "f32": "floats"}


@dataclass(frozen=True)
class Load:
    """An operand of a kernel: its type, and whether one element serves the whole inner loop."""

    dtype: DType
    is_single: bool = False


@dataclass(frozen=True)
class Step:
    """One result of a body: a scalar over operands, which are loads or earlier steps' results.

    Attributes:
        scalar: The expression and its parameter values.
        operands: What each `Var` of the expression is: the number of a load, or of an earlier
            step counted on from the loads.
        stored: Type to store the result as, or None for a result only later steps use.
    """

    scalar: Scalar
    operands: tuple[int, ...]
    stored: DType | None


@dataclass
class Body:
    """The C text of a body, and the values of its parameters.

    Operands of the kernel are the loads in order, then the stored results in order.
    """

    loads: Sequence[Load]
    steps: Sequence[Step]
    values: dict[str, list[Number]] = field(default_factory=lambda: {"i32": [], "f32": []})
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._kinds: dict[int, str] = {}
        self._load_operands()
        stores = len(self.loads)
        for number, step in enumerate(self.steps, len(self.loads)):
            self._compute(number, step)
            if step.stored is not None:
                self._store(number, stores, step.stored)
                stores += 1
        self.operand_count = stores

    @property
    def name(self) -> str:
        """The body's function name, which follows from its text."""
        return f"body_{hashlib.sha256(self._text.encode()).hexdigest()[:12]}"

    @property
    def prelude(self) -> str:
        """The body as a C function."""
        return (
            f"CIRCLET_INLINE void {self.name}(const elementwise_values *v, char *const *at, "
            f"int64_t i, int64_t n) {{\n    (void)v;\n{self._text}}}\n"
        )

    def params(self) -> dict[str, list[Number]]:
        """The parameter arrays, filled up with zeros."""
        return {
            _ARRAYS[kind]: self.values[kind] + [0] * (_LIMITS[kind] - len(self.values[kind]))
            for kind in _ARRAYS
        }

    @property
    def _text(self) -> str:
        return "".join(f"    {line}\n" for line in self.lines)

    def _load_operands(self) -> None:
        for number, load in enumerate(self.loads):
            kind = _LOADED_KINDS.get(load.dtype, "i32")
            self._define(number, kind, _load(number, load, kind))

    def _define(self, number: int, kind: str, value: str) -> None:
        self._kinds[number] = kind
        self.lines.append(f"{_VECTORS[kind]} x{number} = {value};")

    def _compute(self, number: int, step: Step) -> None:
        places = self._param_places(step.scalar)

        def leaf(node: Var | Param | Const) -> str:
            if isinstance(node, Var):
                return self._variable(step.operands[node.index], node.kind)
            if isinstance(node, Param):
                return places[node]
            return _literal(node.value, node.kind)

        expr = _without_divisions(step.scalar.expr)
        self._define(number, expr.kind, to_c(expr, leaf, _SPELLINGS))

    def _variable(self, number: int, kind: str) -> str:
        own = self._kinds[number]
        if own == kind:
            return f"x{number}"
        if own == "i64" and kind == "i32":
            return f"v_low_i32(x{number})"
        return f"(x{number} & 1)" if own == "mask" else f"v_to_{kind}(x{number})"

    def _param_places(self, scalar: Scalar) -> Mapping[Param, str]:
        places = {}
        for leaf in leaves(scalar.expr):
            if isinstance(leaf, Param):
                values = self.values[leaf.kind]
                splat = "v_splat" if leaf.kind == "f32" else "v_splat_i32"
                places[leaf] = f"{splat}(v->{_ARRAYS[leaf.kind]}[{len(values)}])"
                values.append(scalar.params[leaf.name])
        return places

    def _store(self, number: int, operand: int, dtype: DType) -> None:
        at = f"at[{operand}] + i * {dtype.bits // 8}"
        if dtype == DType.FLOAT32:
            self.lines.append(f"element_store_f32({at}, {self._variable(number, 'f32')}, n);")
            return
        if dtype == DType.INT64:
            self.lines.append(f"element_store_i64({at}, {self._variable(number, 'i64')}, n);")
            return
        value = self._variable(number, "i32")
        self.lines.append(f"element_store_i32({at}, {value}, n, {EXPRESSION_TYPES[dtype]});")


def _load(number: int, load: Load, kind: str) -> str:
    """C text of the vector of an operand."""
    size, element = load.dtype.bits // 8, EXPRESSION_TYPES[load.dtype]
    at = f"at[{number}] + i * {size}"
    if kind == "i64":
        single = f"v_splat_i64(*(const int64_t *)at[{number}])"
        return single if load.is_single else f"element_load_i64({at}, n)"
    if load.is_single:
        return f"element_splat_{kind}(at[{number}], {element})"
    return f"element_load_{kind}({at}, n, {element})"


def not_printable(scalar: Scalar) -> str | None:
    """Why there is no vector code for an expression, or None."""
    nodes = _nodes(scalar.expr)
    calls = [node for node in nodes if isinstance(node, Call)]
    if any(node.function in _DIVISIONS and node.kind == "i64" for node in calls):
        return "64-bit integers have no vector division"
    if any(isinstance(node, Param) and node.kind == "i64" for node in nodes):
        return "64-bit parameters are not passed"
    if any(node.function == "div" and node.kind != "f32" for node in calls):
        return "integer division has no vector code"
    if {"i64", "f32"} <= {node.kind for node in nodes}:
        return "64-bit integers have no vector form in float"
    counts = dict.fromkeys(_LIMITS, 0)
    for leaf in leaves(scalar.expr):
        if isinstance(leaf, Param):
            counts[leaf.kind] += 1
    if any(counts[kind] > limit for kind, limit in _LIMITS.items()):
        return "too many parameters"
    return None


def _nodes(expr: Expr) -> list[Expr]:
    inner = [node for arg in expr.args for node in _nodes(arg)] if isinstance(expr, Call) else []
    return [expr, *inner]


def _without_divisions(expr: Expr) -> Expr:
    """The expression with float divisions by constants as products, within one ulp."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(_without_divisions(arg) for arg in expr.args)
    divisor = args[-1]
    if expr.function == "div" and isinstance(divisor, Const) and divisor.kind == "f32":
        return Call("mul", (args[0], Const(1.0 / divisor.value)))
    return Call(expr.function, args)


def _literal(value: Number, kind: str) -> str:
    if kind != "f32":
        return f"v_splat_{kind}({int(value)})"
    number = float(np.float32(value))
    if np.isinf(number):
        return f"v_splat({'-' if number < 0 else ''}__builtin_inff())"
    return f"v_splat({number.hex()}f)"
