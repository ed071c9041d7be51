"""Prints scalar expressions as C over vectors, and collects the values of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import frexp

import numpy as np

from circlet.backends.cpu.elementwise_limits import MOST_FLOATS, MOST_INTS
from circlet.ir import DType
from circlet.ops.expr import KINDS, Call, Const, Expr, Number, Param, Scalar, Var, call_to_c, leaves
from circlet.ops.functions import FLOAT_KINDS

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
    DType.UINT16: "ELEMENT_U16",
    DType.INT64: "ELEMENT_I64",
    DType.FLOAT64: "ELEMENT_F64",
}
VECTORS = {"f32": "vf", "f64": "wd", "i32": "vi", "i64": "wl", "mask": "vi"}
PARAM_LIMITS = {"i32": MOST_INTS, "f32": MOST_FLOATS}
_SPELLINGS = {"expm1": "v_expm1_falling({0})"}
_ARRAYS = {"i32": "ints", "f32": "floats"}
_WIDE_SPLATS = {"f64": "w_splat(*(const double *){})", "i64": "v_splat_i64(*(const int64_t *){})"}


@dataclass
class Printer:
    """C text of values, which have numbers; value 3 is the C variable `x3`.

    Attributes:
        values: The parameters' values so far.
        kinds: What each value is computed in.
        singles: Values that are the same in all lanes, all along an inner loop.
    """

    values: dict[str, list[Number]] = field(default_factory=lambda: {"i32": [], "f32": []})
    kinds: dict[int, str] = field(default_factory=dict)
    singles: set[int] = field(default_factory=set)

    def params(self) -> dict[str, list[Number]]:
        """The parameter arrays, filled up with zeros."""
        return {
            _ARRAYS[kind]: self.values[kind] + [0] * (PARAM_LIMITS[kind] - len(self.values[kind]))
            for kind in _ARRAYS
        }

    def defined(self, number: int, kind: str, text: str) -> str:
        """The C statement that gives a value its number."""
        self.kinds[number] = kind
        return f"{VECTORS[kind]} x{number} = {text};"

    def computed(self, number: int, scalar: Scalar, operands: Sequence[int]) -> str:
        """The C statements of an expression over values given by number.

        What stands in it more than once is computed once.
        """
        params = self._param_texts(scalar)
        names: dict[Expr, str] = {}

        def text(node: Expr) -> str:
            if node in names:
                return names[node]
            if isinstance(node, Var):
                return self.variable(operands[node.index], node.kind)
            if isinstance(node, Param):
                return params[node]
            if isinstance(node, Const):
                return _literal(node.value, node.kind)
            assert isinstance(node, Call)
            return call_to_c(node, [text(arg) for arg in node.args], _SPELLINGS)

        is_single = [operand in self.singles for operand in operands]
        expr = _without_divisions(scalar.expr, is_single)
        statements = []
        for place, node in enumerate(_shared(expr)):
            statements.append(f"{VECTORS[node.kind]} x{number}_{place} = {text(node)};")
            names[node] = f"x{number}_{place}"
        return " ".join([*statements, self.defined(number, expr.kind, text(expr))])

    def loaded(
        self, number: int, at: str, dtype: DType, *, is_single: bool = False, cycle: int = 0
    ) -> str:
        """The C statement that loads a value; `is_single` where one element serves all lanes.

        A `cycle` of elements, other than 0, serves them over and over.
        """
        kind = KINDS.get(dtype, "i32")
        self.singles |= {number} if is_single else set()
        if cycle:
            first = f"element_load_{kind}({at}, {cycle}, {EXPRESSION_TYPES[dtype]})"
            return self.defined(number, kind, f"CIRCLET_CYCLE({first}, {cycle})")
        address = at if is_single else f"{at} + i * {dtype.bits // 8}"
        if kind in _WIDE_SPLATS:
            loaded = f"element_load_{kind}({address}, n)"
            text = _WIDE_SPLATS[kind].format(at) if is_single else loaded
        elif is_single:
            text = f"element_splat_{kind}({at}, {EXPRESSION_TYPES[dtype]})"
        else:
            text = f"element_load_{kind}({address}, n, {EXPRESSION_TYPES[dtype]})"
        return self.defined(number, kind, text)

    def stored(self, number: int, at: str, dtype: DType, count: str = "n") -> str:
        """The C statement that stores a value."""
        kind = KINDS.get(dtype, "i32")
        value = self.variable(number, kind)
        if kind != "i32":
            return f"element_store_{kind}({at}, {value}, {count});"
        return f"element_store_i32({at}, {value}, {count}, {EXPRESSION_TYPES[dtype]});"

    def variable(self, number: int, kind: str) -> str:
        """C text of a value, computed in `kind`."""
        own = self.kinds[number]
        if own == kind:
            return f"x{number}"
        if own == "i64" and kind == "i32":
            return f"v_low_i32(x{number})"
        return f"(x{number} & 1)" if own == "mask" else f"v_to_{kind}(x{number})"

    def _param_texts(self, scalar: Scalar) -> Mapping[Param, str]:
        texts = {}
        for leaf in leaves(scalar.expr):
            if isinstance(leaf, Param):
                values = self.values[leaf.kind]
                splat = "v_splat" if leaf.kind == "f32" else "v_splat_i32"
                texts[leaf] = f"{splat}(v->{_ARRAYS[leaf.kind]}[{len(values)}])"
                values.append(scalar.params[leaf.name])
        return texts


def _without_divisions(expr: Expr, is_single: Sequence[bool]) -> Expr:
    """The expression with float divisions by what stays the same as products, rounded alike.

    Args:
        is_single: Whether the operand of each `Var` is the same all along an inner loop.
    """
    if not isinstance(expr, Call):
        return expr
    args = tuple(_without_divisions(arg, is_single) for arg in expr.args)
    divisor = args[-1]
    if expr.function != "div" or divisor.kind != "f32":
        return Call(expr.function, args)
    if isinstance(divisor, Const):
        inverse = Const(1.0 / divisor.value)
        if frexp(divisor.value)[0] in (0.5, -0.5):
            return Call("mul", (args[0], inverse))
        return Call("divided", (args[0], inverse, divisor))
    if isinstance(divisor, Var) and is_single[divisor.index] and args[0] != Const(1.0):
        return Call("divided", (args[0], Call("inverse", (divisor,)), divisor))
    return Call(expr.function, args)


def _shared(expr: Expr) -> list[Call]:
    """Calls that stand in a tree more than once, those within others first."""
    counts: dict[Call, int] = {}

    def count(node: Expr) -> None:
        if not isinstance(node, Call):
            return
        if node not in counts:
            for arg in node.args:
                count(arg)
        counts[node] = counts.get(node, 0) + 1

    count(expr)
    return [node for node, times in counts.items() if times > 1]


def _literal(value: Number, kind: str) -> str:
    if kind not in FLOAT_KINDS:
        return f"v_splat_{kind}({int(value)})"
    splat, end = ("v_splat", "f") if kind == "f32" else ("w_splat", "")
    number = float(np.float32(value)) if kind == "f32" else float(value)
    if np.isinf(number):
        return f"{splat}({'-' if number < 0 else ''}__builtin_inf{end}())"
    return f"{splat}({number.hex()}{end})"
