"""A language of scalar expressions, from which numpy results and C code are both derived.

An expression is a tree of variables (operands), constants, run-time parameters and calls of the
functions in one table. It has a kind, the type it is computed in: "f32", "f64", "i32", "i64", or
"mask" for the result of a comparison. Integers wrap, floats follow IEEE, `select` evaluates both
sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from circlet.cached import cached_property
from circlet.ir import DType
from circlet.ops.functions import FLOAT_KINDS, FUNCTIONS, NUMPY_TYPES

Array = npt.NDArray[np.generic]
Number = int | float

# What elements are computed in; those of other types in "i32".
KINDS = {DType.FLOAT32: "f32", DType.FLOAT64: "f64", DType.INT64: "i64"}


@dataclass(frozen=True)
class Expr:
    """A node of an expression; built with Python operators and the functions of this module."""

    def __add__(self, other: Operand) -> Call:
        return call("add", self, other)

    def __sub__(self, other: Operand) -> Call:
        return call("sub", self, other)

    def __mul__(self, other: Operand) -> Call:
        return call("mul", self, other)

    def __truediv__(self, other: Operand) -> Call:
        return call("div", self, other)

    def __radd__(self, other: Number) -> Call:
        return call("add", _constant_like(other, self), self)

    def __rsub__(self, other: Number) -> Call:
        return call("sub", _constant_like(other, self), self)

    def __rmul__(self, other: Number) -> Call:
        return call("mul", _constant_like(other, self), self)

    def __rtruediv__(self, other: Number) -> Call:
        return call("div", _constant_like(other, self), self)

    def __neg__(self) -> Call:
        return call("neg", self)

    def __lt__(self, other: Operand) -> Call:
        return call("lt", self, other)

    def __le__(self, other: Operand) -> Call:
        return call("le", self, other)

    def __gt__(self, other: Operand) -> Call:
        return call("gt", self, other)

    def __ge__(self, other: Operand) -> Call:
        return call("ge", self, other)

    def equals(self, other: Operand) -> Call:
        """Element-wise equality (`==` compares trees)."""
        return call("eq", self, other)

    def differs(self, other: Operand) -> Call:
        """Element-wise inequality."""
        return call("ne", self, other)

    @property
    def kind(self) -> str:
        """The type the expression is computed in."""
        raise NotImplementedError


Operand = Expr | int | float


@dataclass(frozen=True)
class Var(Expr):
    """Operand `index` of the op, widened to `type` when it is loaded."""

    index: int
    type: str = "f32"

    @property
    def kind(self) -> str:
        """As stated."""
        return self.type


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A number that is part of the code; equal to those that are written alike: 0.0 is not -0.0."""

    value: Number
    type: str = "f32"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @cached_property
    def _text(self) -> tuple[str, str]:
        return repr(self.value), self.type

    @property
    def kind(self) -> str:
        """As stated."""
        return self.type


@dataclass(frozen=True)
class Param(Expr):
    """A number that is known per op instance, read from its descriptor at run time."""

    name: str
    type: str = "i32"

    @property
    def kind(self) -> str:
        """As stated."""
        return self.type


@dataclass(frozen=True)
class Call(Expr):
    """A function of the table applied to arguments."""

    function: str
    args: tuple[Expr, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.args))

    @property
    def kind(self) -> str:
        """That of the last argument, unless the function has its own."""
        result = FUNCTIONS[self.function].result
        return result or self.args[-1].kind


@dataclass(frozen=True)
class Scalar:
    """One element of an op's result as an expression of one element of each operand.

    Ops that differ in parameter values only have equal expressions, so they share code. The
    result is in range of the output's type, which it is narrowed to when stored.

    Attributes:
        expr: The value of an output element, fused activation included.
        params: Values of the expression's `Param`s for this op.
    """

    expr: Expr
    params: Mapping[str, Number] = field(default_factory=dict)


def call(function: str, *args: Operand) -> Call:
    """A function of the table applied; plain numbers take the kind of the first expression."""
    like = next(arg for arg in args if isinstance(arg, Expr) and arg.kind != "mask")
    nodes = tuple(arg if isinstance(arg, Expr) else _constant_like(arg, like) for arg in args)
    if len(nodes) != FUNCTIONS[function].arity:
        raise TypeError(f"{function} takes {FUNCTIONS[function].arity} arguments")
    return Call(function, nodes)


def _constant_like(value: Number, like: Expr) -> Const:
    return Const(float(value) if like.kind in FLOAT_KINDS else int(value), like.kind)


def clamp(value: Expr, low: Operand, high: Operand) -> Call:
    """`value` limited to low..high; NaN stays NaN."""
    return call("min", call("max", value, low), high)


def rescale(value: Expr, name: str) -> Call:
    """Times a fixed-point multiplier: parameters `<name>_multiplier`, `_left` and `_right`."""
    shifted = call("shl", value, Param(f"{name}_left"))
    product = call("srdhm", shifted, Param(f"{name}_multiplier"))
    return call("rdbpot", product, Param(f"{name}_right"))


def evaluate(expr: Expr, operands: Sequence[Array], params: Mapping[str, Number]) -> Array:
    """The expression's value over numpy arrays, which broadcast; typed by `expr.kind`."""
    with np.errstate(all="ignore"):
        return _evaluate(expr, operands, params, {})


def _evaluate(
    expr: Expr,
    operands: Sequence[Array],
    params: Mapping[str, Number],
    known: dict[int, Array],
) -> Array:
    if id(expr) not in known:
        known[id(expr)] = _value(expr, operands, params, known)
    return known[id(expr)]


def _value(
    expr: Expr,
    operands: Sequence[Array],
    params: Mapping[str, Number],
    known: dict[int, Array],
) -> Array:
    if isinstance(expr, Var):
        return operands[expr.index].astype(NUMPY_TYPES[expr.kind], copy=False)
    if isinstance(expr, Const):
        return np.asarray(expr.value, NUMPY_TYPES[expr.kind])
    if isinstance(expr, Param):
        return np.asarray(params[expr.name], NUMPY_TYPES[expr.kind])
    if not isinstance(expr, Call):
        raise TypeError(f"not an expression: {expr!r}")
    arguments = [_evaluate(arg, operands, params, known) for arg in expr.args]
    return FUNCTIONS[expr.function].numpy(*arguments)


def to_c(
    expr: Expr,
    names: Callable[[Var | Param | Const], str],
    table: Mapping[str, str] | None = None,
) -> str:
    """C code of the expression.

    Args:
        names: C text of a leaf.
        table: C templates by function name, over the defaults: `{0}` is the first argument,
            `{kind}` the kind it is computed in, `{wide}` "_f64" of that kind, "" of others.
    """
    if not isinstance(expr, Call):
        return names(expr)  # type: ignore[arg-type]
    return call_to_c(expr, [to_c(arg, names, table) for arg in expr.args], table or {})


def call_to_c(expr: Call, arguments: Sequence[str], table: Mapping[str, str]) -> str:
    """C code of a call whose arguments are written already; `table` as `to_c` has it."""
    template = table.get(expr.function, FUNCTIONS[expr.function].c)
    kind = expr.args[-1].kind
    return template.format(*arguments, kind=kind, wide="_f64" if kind == "f64" else "")


def leaves(expr: Expr) -> list[Var | Param | Const]:
    """The distinct leaves of an expression, in order of first use."""
    if isinstance(expr, Call):
        found = [leaf for arg in expr.args for leaf in leaves(arg)]
        return list(dict.fromkeys(found))
    return [expr] if isinstance(expr, Var | Param | Const) else []
