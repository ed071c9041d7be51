"""Prints the C body of an element-wise kernel from scalar expressions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from circlet.backends.cpu.lower.printer import PARAM_LIMITS, VECTORS, Printer
from circlet.cached import cached_property
from circlet.ir import DType
from circlet.ops.expr import Call, Expr, Number, Param, Scalar, leaves
from circlet.ops.functions import FLOAT_KINDS

_NOT_LONG = ("pow",)
_WIDE = ("f64", "i64")
_OF_DOUBLES = frozenset(
    {
        *("add", "sub", "mul", "div", "neg", "abs", "min", "max", "select"),
        *("lt", "le", "gt", "ge", "eq", "ne"),
        *("sqrt", "floor", "ceil", "round_half_even", "to_f32", "to_f64"),
    }
)


@dataclass(frozen=True)
class Load:
    """An operand of a kernel: its type, and what serves the whole inner loop.

    Attributes:
        is_single: Whether one element does.
        cycle: How many elements do, over and over; 0 where all are read once.
    """

    dtype: DType
    is_single: bool = False
    cycle: int = 0

    @property
    def is_invariant(self) -> bool:
        """Whether it is loaded before the loop."""
        return self.is_single or self.cycle > 0


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

    What one element, or a cycle of them, serves for all along an inner loop is loaded before it.

    Operands of the kernel are the loads in order, then the stored results in order.
    """

    loads: Sequence[Load]
    steps: Sequence[Step]
    lines: list[str] = field(default_factory=list)
    invariants: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._printer = Printer()
        for number, load in enumerate(self.loads):
            at = f"at[{number}]"
            line = self._printer.loaded(
                number, at, load.dtype, is_single=load.is_single, cycle=load.cycle
            )
            (self.invariants if load.is_invariant else self.lines).append(line)
        stores = len(self.loads)
        for number, step in enumerate(self.steps, len(self.loads)):
            self.lines.append(self._printer.computed(number, step.scalar, step.operands))
            if step.stored is not None:
                at = f"at[{stores}] + i * {step.stored.bits // 8}"
                self.lines.append(self._printer.stored(number, at, step.stored))
                stores += 1
        self.operand_count = stores

    @cached_property
    def name(self) -> str:
        """The row function's name, which follows from the body's text."""
        return f"row_{hashlib.sha256(self._text.encode()).hexdigest()[:12]}"

    @cached_property
    def prelude(self) -> str:
        """The body as a C function, and the one that runs it over a row."""
        cycled = {number for number, load in enumerate(self.loads) if load.cycle}
        numbers = sorted(self._printer.singles | cycled)
        kinds = [VECTORS[self._printer.kinds[number]] for number in numbers]
        taken = "".join(f", {kind} x{number}" for kind, number in zip(kinds, numbers, strict=True))
        given = "".join(f", x{number}" for number in numbers)
        start = "CIRCLET_INLINE void {}(const elementwise_values *v, char *const *at, "
        return (
            f"{start.format(self.name + '_body')}int64_t i, int64_t n{taken}) {{\n"
            f"    (void)v;\n{_block(self.lines)}}}\n"
            f"{start.format(self.name)}int64_t begin, int64_t end) {{\n"
            f"{_block(self.invariants)}    ELEMENTWISE_LOOP({self.name}_body, {given})\n}}\n"
        )

    def params(self, scalars: Sequence[Scalar] = ()) -> dict[str, list[Number]]:
        """The parameter arrays, filled up with zeros; of a `printed` body for those scalars."""
        found: dict[str, list[Any]] = self._printer.params()
        for values in found.values() if scalars else ():
            values[:] = [scalars[v[0]].params[v[1]] if isinstance(v, tuple) else v for v in values]
        return found

    @property
    def _text(self) -> str:
        return _block([*self.invariants, *self.lines])


def _block(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


class _ParamNames(dict[str, Any]):
    """A mapping that gives each parameter itself: the number of its step, and its name."""

    def __init__(self, step: int) -> None:
        self._step = step

    def __missing__(self, name: str) -> tuple[int, str]:
        return self._step, name


@lru_cache(maxsize=1024)
def printed(
    loads: tuple[Load, ...], steps: tuple[tuple[Expr, tuple[int, ...], DType | None], ...]
) -> Body:
    """The body of expressions, their operands and types, printed once; `params` wants scalars."""
    return Body(
        loads,
        [
            Step(Scalar(expr, _ParamNames(number)), operands, stored)
            for number, (expr, operands, stored) in enumerate(steps)
        ],
    )


def not_printable(scalar: Scalar) -> str | None:
    """Why there is no vector code for an expression, or None."""
    return _not_printable(scalar.expr)


@lru_cache(maxsize=1024)
def _not_printable(expr: Expr) -> str | None:
    nodes = _nodes(expr)
    calls = [node for node in nodes if isinstance(node, Call)]
    if any(node.function in _NOT_LONG and node.kind == "i64" for node in calls):
        return "64-bit integers have no vector power"
    if any(isinstance(node, Param) and node.kind in _WIDE for node in nodes):
        return "64-bit parameters are not passed"
    if any(node.function == "div" and node.kind not in FLOAT_KINDS for node in calls):
        return "integer division has no vector code"
    kinds = {node.kind for node in nodes}
    if "i64" in kinds and kinds & FLOAT_KINDS:
        return "64-bit integers have no vector form in float"
    doubles = {node.function for node in calls if node.args[-1].kind == "f64"}
    if not doubles <= _OF_DOUBLES:
        return f"FLOAT64 has no vector form of {', '.join(sorted(doubles - _OF_DOUBLES))}"
    counts = dict.fromkeys(PARAM_LIMITS, 0)
    for leaf in leaves(expr):
        if isinstance(leaf, Param):
            counts[leaf.kind] += 1
    if any(counts[kind] > limit for kind, limit in PARAM_LIMITS.items()):
        return "too many parameters"
    return None


def _nodes(expr: Expr) -> list[Expr]:
    inner = [node for arg in expr.args for node in _nodes(arg)] if isinstance(expr, Call) else []
    return [expr, *inner]
