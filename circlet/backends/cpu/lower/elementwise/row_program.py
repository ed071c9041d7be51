"""Prints C that computes rows in passes, each over values that earlier passes reduced."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from circlet.backends.cpu.elementwise_limits import ROW_REDUCTIONS
from circlet.backends.cpu.lower.printer import VECTORS, Printer
from circlet.ir import DType, Op, Tensor
from circlet.ops.expr import Call, Expr, Number
from circlet.ops.operands import data_inputs, is_reshape
from circlet.ops.scalars import element_scalar

# What costs more to compute again than to keep.
_HEAVY = frozenset(
    {"exp", "expm1", "log", "tanh", "logistic", "erf", "sin", "cos", "atan2", "pow", "div"}
    | {"sqrt", "rsqrt", "floor_div", "floor_mod"}
)
_SIGNATURE = "const elementwise_values *v, char *const *at"
_ROW_SIGNATURE = f"{_SIGNATURE}, void *scratch, vf *row, int64_t count"
_PLACE = "int64_t i, int64_t n"
_NEXT_SIGNATURE = "char *const *next, vf *ahead, int64_t begun"


@dataclass(frozen=True)
class RowOperand:
    """An operand of the kernel: whole rows, or one element that serves a whole row."""

    tensor: Tensor
    is_single: bool


@dataclass
class RowProgram:
    """The C text of a row's computation, and the values of its parameters.

    A pass runs over the row's elements. A value of elements is computed in every pass that needs
    it, unless that is expensive: then the first pass keeps it, in the result it is stored to or in
    scratch.
    Where it can, the last pass runs in step with the first one over the next row.

    Attributes:
        inputs: Operands that are read.
        outputs: Tensors that are stored.
        parts: The ops in order.
        elements: Sizes of a tensor of elements; all others are of rows.
        kept: Values that scratch holds from pass to pass.
    """

    inputs: Sequence[RowOperand]
    outputs: Sequence[Tensor]
    parts: Sequence[Op]
    elements: tuple[int, ...]
    kept: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._printer = Printer()
        self._numbers: dict[Tensor, int] = {}
        self._ready: dict[int, int] = {}  # The pass before which a row's value is known.
        self._texts: dict[int, str] = {}
        self._operands: dict[int, tuple[int, ...]] = {}
        self._reduced: dict[int, tuple[int, str]] = {}  # Source and kind of each reduction.
        self._heavy: set[int] = set()
        self._first: dict[int, int] = {}  # The pass that computes a value of elements first.
        for operand in self.inputs:
            self._read(operand)
        for part in self.parts:
            self._number(part)
        self._plan()
        self._body = self._row_functions()

    @property
    def name(self) -> str:
        """What the names of the functions begin with, which follows from their text."""
        return f"rows_{hashlib.sha256(self._body.encode()).hexdigest()[:12]}"

    @property
    def prelude(self) -> str:
        """The passes, and the functions that run a row through them."""
        return self._body.replace("ROWS", self.name)

    @property
    def arguments(self) -> tuple[int | str, ...]:
        """What the kernel needs to know of the functions."""
        operands = len(self.inputs) + len(self.outputs)
        return operands, len(self._texts), f"{self.name}_first", f"{self.name}_others"

    def params(self) -> dict[str, list[Number]]:
        """The parameter arrays, filled up with zeros."""
        return self._printer.params()

    def _read(self, operand: RowOperand) -> None:
        number = len(self._texts)
        self._numbers[operand.tensor] = number
        at, dtype = f"at[{number}]", operand.tensor.dtype
        text = self._printer.loaded(number, at, dtype, is_single=operand.is_single)
        self._texts[number], self._operands[number] = text, ()
        if operand.is_single:
            self._ready[number] = 0
        else:
            self._first[number] = 0

    def _number(self, part: Op) -> None:
        operands = tuple(self._numbers[tensor] for tensor in data_inputs(part))
        result = part.outputs[0]
        if is_reshape(part):
            self._numbers[result] = operands[0]
            return
        number = self._numbers[result] = len(self._texts)
        self._operands[number] = operands
        if part.kind in ROW_REDUCTIONS:
            self._reduce(number, part, operands[0])
            return
        scalar = element_scalar(part)
        assert scalar is not None
        self._texts[number] = self._printer.computed(number, scalar, operands)
        if result.static_shape != self.elements:
            self._ready[number] = max(self._ready[o] for o in operands)
            return
        known = [self._ready.get(o, self._first.get(o, 0)) for o in operands]
        self._first[number] = max(known)
        if _is_heavy(scalar.expr):
            self._heavy.add(number)

    def _reduce(self, number: int, part: Op, source: int) -> None:
        self._ready[number] = self._first[source] + 1
        self._reduced[number] = source, ROW_REDUCTIONS[part.kind]
        divided = " / v_splat((float)count)" if part.kind == "MEAN" else ""
        text = self._printer.defined(number, "f32", f"row[{number}]{divided}")
        self._texts[number] = text

    def _plan(self) -> None:
        """Decide what every pass computes, and what has to be kept for later passes."""
        stored = {self._numbers[t]: position for position, t in enumerate(self.outputs)}
        self._stores = {n: position for n, position in stored.items() if n in self._first}
        self._row_stores = {n: position for n, position in stored.items() if n not in self._first}
        passes = 1 + max([*self._first.values(), *(r - 1 for r in self._ready.values())], default=0)
        self._roots: list[list[int]] = [[] for _ in range(passes)]
        for number, (source, _) in self._reduced.items():
            self._roots[self._ready[number] - 1].append(source)
        for number in self._stores:
            self._roots[self._first[number]].append(number)
        self._orders: list[list[int]] = []
        made: set[int] = set()
        for roots in self._roots:
            order: list[int] = []
            for root in roots:
                self._visit(root, made, order)
            self._orders.append(order)
            made |= set(order)

    def _visit(self, number: int, made: set[int], order: list[int]) -> None:
        """Append what a value needs in this pass, and itself."""
        if number in order:
            return
        if self._is_kept(number, made):
            if number not in self._stores and number not in self.kept:
                self.kept.append(number)
        else:
            for operand in self._operands[number]:
                if operand in self._first:
                    self._visit(operand, made, order)
        order.append(number)

    def _is_kept(self, number: int, made: set[int]) -> bool:
        return number in made and number in self._heavy and self._printer.kinds[number] == "f32"

    def _row_functions(self) -> str:
        """The functions of passes, then those that `fused_rows` calls."""
        opening, begin = ["(void)v, (void)at, (void)row;"], [self._addresses()]
        functions, others = [], [self._addresses(), "(void)next, (void)ahead, (void)begun;"]
        known: set[int] = set()
        made: set[int] = set()
        for index, order in enumerate(self._orders):
            self._rows_before(index, known, others if index else opening)
            functions.append(self._pass_function(index, order, known, made))
            made |= set(order)
            if not index:
                begin += ["ROWS_open(v, at, row);", self._run_pass(0)]
                others += [f"{self._taken(n)} (void)x{n};" for n in sorted(known)]
            elif index < len(self._orders) - 1 or not self._overlaps:
                others.append(self._run_pass(index))
        others.append(self._start_of_next())
        self._rows_before(len(self._orders), known, others)
        for number, position in self._row_stores.items():
            at = f"at[{len(self.inputs) + position}]"
            dtype = self.outputs[position].dtype
            others.append(self._printer.stored(number, at, dtype, "1"))
        functions.append(_function("open", f"{_SIGNATURE}, vf *row", opening))
        functions.append(_function("first", _ROW_SIGNATURE, begin))
        functions.append(_function("others", f"{_ROW_SIGNATURE}, {_NEXT_SIGNATURE}", others))
        return "".join(functions)

    @property
    def _overlaps(self) -> bool:
        """Whether the last pass can run together with the first one over the next row."""
        last = len(self._orders) - 1
        kept_by_first = any(self._first[number] == 0 for number in self.kept)
        return last > 0 and not self._reduced_in(last) and not kept_by_first

    def _reduced_in(self, index: int) -> list[int]:
        """What a pass reduces."""
        return [n for n in self._reduced if self._ready[n] == index + 1]

    def _addresses(self) -> str:
        """The addresses of operands and of what is kept, for the passes over a row."""
        addresses = [f"at[{k}]" for k in range(len(self.inputs) + len(self.outputs))]
        kept = range(len(self.kept))
        addresses += [f"(char *)scratch + {k} * ROW_PASS_KEPT(count)" for k in kept]
        return f"char *const all[] = {{{', '.join(addresses)}}}; (void)scratch, (void)all;"

    def _rows_before(self, index: int, known: set[int], lines: list[str]) -> None:
        """Compute the values of rows that are known before a pass."""
        fresh = {n for n, ready in self._ready.items() if ready <= index and n not in known}
        for number in sorted(fresh):
            lines.append(self._texts[number])
            own = self._printer.kinds[number]
            lines.append(f"row[{number}] = (vf){self._printer.variable(number, own)};")
        known |= fresh

    def _run_pass(self, index: int) -> str:
        """Run a pass, and broadcast what it reduced."""
        reduced = self._reduced_in(index)
        call = (
            f"row_pass_run(v, all, row, sum, kinds, {len(reduced)}, count, "
            f"ROWS_{index}, ROWS_{index}_store);"
        )
        return self._reducing(reduced, call, "row")

    def _start_of_next(self) -> str:
        """Run the first pass over the next row, with the last one over this row if they overlap."""
        if not self._overlaps:
            return "if (begun) ROWS_first(v, next, scratch, ahead, begun);"
        reduced, last = self._reduced_in(0), len(self._orders) - 1
        call = (
            f"row_pass_overlapped(v, all, row, count, ROWS_{last}, ROWS_{last}_store, next, "
            f"ahead, sum, kinds, {len(reduced)}, begun, ROWS_0, ROWS_0_store);"
        )
        return f"ROWS_open(v, next, ahead);\n    {self._reducing(reduced, call, 'ahead')}"

    def _reducing(self, reduced: Sequence[int], call: str, row: str) -> str:
        """A call that puts reductions into `sum`, and their way into the row's values."""
        kinds = ", ".join(self._reduced[n][1] for n in reduced) or "0"
        totals = " ".join(f"{row}[{n}] = sum[{k}];" for k, n in enumerate(reduced))
        return f"{{ const int kinds[] = {{{kinds}}}; vf sum[ROW_PASS_SUMS]; {call} {totals} }}"

    def _pass_function(
        self, index: int, order: Sequence[int], known: set[int], made: set[int]
    ) -> str:
        """The function that computes a pass, and the one that stores what it made."""
        lines, left = ["(void)v, (void)row, (void)sum, (void)out;"], list[int]()
        used = {o for n in order for o in self._operands[n] if o in known}
        lines.extend(map(self._taken, sorted(used)))
        for number in order:
            if self._is_kept(number, made):
                lines.append(self._printer.loaded(number, self._place(number), DType.FLOAT32))
                continue
            lines.append(self._texts[number])
            if number in self.kept or (number in self._stores and self._first[number] == index):
                lines.append(f"{self._out(number, len(left))} = x{number};")
                left.append(number)
        for position, number in enumerate(self._reduced_in(index)):
            source, kind = self._reduced[number]
            value = f"row_pass_kept({self._printer.variable(source, 'f32')}, n, {kind})"
            lines.append(f"sum[{position}] = reduce_join_f32(sum[{position}], {value}, {kind});")
        parameters = f"{_SIGNATURE}, const vf *row, vf *sum, row_pass_value *out, {_PLACE}"
        computes = _function(str(index), parameters, lines)
        stores = ["(void)at, (void)out;"]
        stores += [text for place, n in enumerate(left) for text in self._stored(n, place)]
        parameters = f"char *const *at, const row_pass_value *out, {_PLACE}"
        return computes + _function(f"{index}_store", parameters, stores)

    def _taken(self, number: int) -> str:
        """The C statement that takes a row's value from where its bits are kept."""
        vector = VECTORS[self._printer.kinds[number]]
        return f"{vector} x{number} = ({vector})row[{number}];"

    def _out(self, number: int, place: int) -> str:
        """Where a pass leaves a value that is stored."""
        kind = self._printer.kinds[number]
        return f"out[{place}].{'i32' if kind == 'mask' else kind}"

    def _stored(self, number: int, place: int) -> tuple[str, str]:
        """The C statements that store what a pass left."""
        vector = VECTORS[self._printer.kinds[number]]
        is_result = number in self._stores
        dtype = self.outputs[self._stores[number]].dtype if is_result else DType.FLOAT32
        at = f"{self._place(number)} + i * {dtype.bits // 8}"
        taken = f"{vector} x{number} = {self._out(number, place)};"
        return taken, self._printer.stored(number, at, dtype)

    def _place(self, number: int) -> str:
        """Where a value of elements is stored: a result, or scratch."""
        if number in self._stores:
            return f"at[{len(self.inputs) + self._stores[number]}]"
        return f"at[{len(self.inputs) + len(self.outputs) + self.kept.index(number)}]"


def _function(name: str, parameters: str, lines: Sequence[str]) -> str:
    text = "".join(f"    {line}\n" for line in lines)
    return f"CIRCLET_INLINE void ROWS_{name}({parameters}) {{\n{text}}}\n"


def _is_heavy(expr: Expr) -> bool:
    if not isinstance(expr, Call):
        return False
    return expr.function in _HEAVY or any(_is_heavy(arg) for arg in expr.args)
