"""The record that defines an operator kind, and the registry of all records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from circlet.cached import cached_property
from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape, Tensor
from circlet.ir.regions import reachable
from circlet.ops.expr import Scalar
from circlet.ops.left_out import LEFT_OUT
from circlet.ops.requantization import is_evaluated
from circlet.ops.view import View

Arrays = Sequence[np.ndarray | None]


class TensorType(NamedTuple):
    """What inference says of one output: element type and sizes (None where unknown).

    Attributes:
        has_rank: False where even the number of dimensions depends on the data of a run.
    """

    dtype: DType
    shape: Shape
    has_rank: bool = True


@dataclass(frozen=True)
class Rule:
    """One condition on an op: `holds(op)` is True, or the text of what is wrong.

    Rules are checked in order and only while all before them held, so a rule may rely on earlier
    ones (arity is checked first of all).

    Attributes:
        sized: Whether it may depend on sizes of computed tensors and of inputs; other rules hold
            for all sizes of a network if they hold for one.
    """

    name: str
    holds: Callable[[Op], bool]
    message: str
    sized: bool = True


class Cost(NamedTuple):
    """What one op does.

    Attributes:
        macs: Multiply-accumulates.
        bytes: Bytes of its operands.
        operations: What sorts, searches and comparisons of pairs do at worst besides.
        arithmetic: Other arithmetic: sums, comparisons and functions of elements.
    """

    macs: int = 0
    bytes: int = 0
    operations: int = 0
    arithmetic: int = 0

    @property
    def computing(self) -> int:
        """Multiply-accumulates and other arithmetic."""
        return self.macs + self.arithmetic

    @property
    def work(self) -> int:
        """Elementary operations, as limits count them: to move a byte is one as well."""
        return self.computing + self.operations + self.bytes


def moves_bytes(op: Op) -> Cost:
    """Cost of an op that reads its operands once and writes its outputs, computing little."""
    tensors = (*op.inputs, *op.outputs)
    return Cost(bytes=sum([tensor.size_bytes for tensor in tensors if tensor is not None]))


def cost_of(op: Op) -> Cost:
    """What the op's record says, without the graphs that it runs; bytes alone without a record."""
    record = find(op.label)
    return moves_bytes(op) if record is None else record.cost(op)


@dataclass(frozen=True)
class QuantRule:
    """How a quantised op's output scale relates to its inputs.

    Attributes:
        same_as_input: The output shares the scale and zero point of the data inputs.
        fixed: (dtype, scale, zero_point) rows that the output is bound to, e.g. softmax.
    """

    same_as_input: bool = False
    fixed: tuple[tuple[DType, float, int], ...] = ()


class CFunction(NamedTuple):
    """C that computes an op on dense arrays: text that defines a function, and its name."""

    source: str
    name: str


class Effects(Enum):
    """What an op does beside computing its outputs from its inputs; `updates` are told apart."""

    NONE = "none"
    READS_VARIABLE = "reads a variable"
    WRITES_VARIABLE = "writes a variable"
    DRAWS_NUMBERS = "draws random numbers"
    RUNS_GRAPHS = "runs graphs, with their effects"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NoAttrs:
    """Attributes of a kind that has none."""


@dataclass(frozen=True)
class OpDef:
    """Everything that is true of an operator kind regardless of backend.

    Attributes:
        kind: Circle builtin name, or "CUSTOM:" and the code of a custom operator (`Op.label`).
        attrs: Attribute dataclass: what the arithmetic needs to know, whatever file says it.
        arity: (fewest, most) inputs; optional trailing inputs may be missing or None.
        outputs: Number of outputs; None where `infer` says how many.
        required: How many leading inputs must be present (not None).
        dtypes: Accepted combinations: one string per supported form, the dtypes of the data
            inputs and of output 0, e.g. "INT8 INT8 INT32 -> INT8"; the printed documentation
            and the unsupported-operator report are made of them. "*" matches any dtype, "_"
            an omitted input; inputs beyond the listed ones are not checked.
        infer: Output types from the inputs' types (and constant data where it matters).
        rules: Verifier rules beyond arity and dtypes.
        evaluate: numpy semantics: outputs from input arrays, then the new values of the inputs
            in `updates`; quantisation parameters come from the op's tensors. Exact for integers
            (see docs/exactness.md).
        updates: Inputs that the op writes as well: variable tensors.
        states: For kinds that keep state which files do not name, the variables of an op, which
            come behind its inputs and are among the `updates`; None for all others.
        effects: What else it does; ops without effects may be folded, or dropped where unread.
        identity: Whether the one output holds the elements of input 0, where type, scale and sizes
            of both agree; None for kinds that never give back their input.
        view: For ops that repeat elements of an input, which ones output number so-and-so holds.
        joins: For ops whose inputs lie one after the other in the output, along which axis.
        continues: Outputs that are an input updated, as (output, input): both may be one array, of
            which then only what is new is written.
        shape_inputs: Inputs that say sizes, axes or places and give no elements.
        numerics: How results compare with LiteRT's BUILTIN_REF kernel: "exact", "tolerance".
        quant: How the output's scale is bound.
        cost: Work of one instance, at worst where it depends on data; what the graphs do that it
            runs is counted by `work.py`.
        scalar: For element-wise kinds, one output element as an expression; GraphError for
            forms that have none: those of 8 bits that only a table computes (`lut.table_of` serves
            every 8-bit unary form), and searches.
        c_function: For operators of users, what computes it where C is compiled.
        fused: Whether no file holds it: a pass makes it, such as one of several ops that one kernel
            computes.
        decompose: For kinds that others express, ops that compute the same to the last digits, in
            order, over the op's own operands and results; none where its sizes do not let them.
        element_regions: Whether its graphs join or compare single elements, rather than take its
            operands.
    """

    kind: str
    infer: Callable[[Op], list[TensorType]]
    evaluate: Callable[[Op, Arrays], list[np.ndarray]]
    arity: tuple[int, int]
    dtypes: tuple[str, ...]
    attrs: type = NoAttrs
    outputs: int | None = 1
    required: int = 1
    rules: tuple[Rule, ...] = ()
    numerics: str = "exact"
    quant: QuantRule = QuantRule()
    cost: Callable[[Op], Cost] = moves_bytes
    scalar: Callable[[Op], Scalar] | None = None
    updates: tuple[int, ...] = ()
    states: Callable[[Op], list[Tensor]] | None = None
    effects: Effects = Effects.NONE
    identity: Callable[[Op], bool] | None = None
    view: Callable[[Op, int], View | None] | None = None
    joins: Callable[[Op], int] | None = None
    continues: tuple[tuple[int, int], ...] = ()
    shape_inputs: tuple[int, ...] = ()
    c_function: CFunction | None = None
    fused: bool = False
    decompose: Callable[[Op], list[Op]] | None = None
    element_regions: bool = False

    @cached_property
    def sized_rules(self) -> tuple[Rule, ...]:
        """The rules that sizes decide."""
        return tuple(rule for rule in self.rules if rule.sized)


_SHOWN_FORMS = 12
_RECORDS: dict[str, OpDef] = {}


def register(record: OpDef) -> OpDef:
    """Add a record; ValueError if its kind has one already."""
    if record.kind in _RECORDS:
        raise ValueError(f"{record.kind} has a record already")
    _RECORDS[record.kind] = record
    return record


def unregister(kind: str) -> None:
    """Drop the record of a kind, if there is one."""
    _RECORDS.pop(kind, None)


def find(kind: str) -> OpDef | None:
    """The record of a kind (`Op.label` for custom operators), or None."""
    return _RECORDS.get(kind)


def get(op: Op) -> OpDef:
    """The record of an op's kind; GraphError where there is none."""
    record = _RECORDS.get(op.label)
    if record is None:
        raise GraphError(f"no record for operator kind {op.label}", where=op.name)
    return record


def is_pure(op: Op) -> bool:
    """Whether an op is known to do nothing but compute its outputs from its inputs."""
    record = _RECORDS.get(op.label)
    if record is None or record.effects is not Effects.NONE or record.states is not None:
        return False
    graphs = dict.fromkeys(inner for region in op.regions for inner in reachable(region))
    known = (_RECORDS.get(inner.label) for graph in graphs for inner in graph.ops)
    return all(found is not None and found.effects is Effects.NONE for found in known)


def takes_elements(op: Op) -> bool:
    """Whether the graphs of an op join or compare single elements."""
    record = _RECORDS.get(op.label)
    return record is not None and record.element_regions


def all_records() -> Iterator[OpDef]:
    """The record of every kind that files hold, sorted by kind."""
    held = [record for record in _RECORDS.values() if not record.fused]
    return iter(sorted(held, key=lambda record: record.kind))


def unsupported_reason(op: Op) -> str | None:
    """Why an op cannot be run at all: no record, or none for its operands; None if it can."""
    record = _RECORDS.get(op.label)
    if record is None:
        return LEFT_OUT.get(op.label, "Circlet does not know this kind of operator")
    inputs: list[DType | None] = []
    for tensor in op.inputs:
        if tensor is not None and tensor.sparsity is not None:
            return f"the sparse storage of constant {tensor.name} is damaged"
        inputs.append(None if tensor is None else tensor.dtype)
    if not _takes(record.dtypes, tuple(inputs), op.outputs[0].dtype if op.outputs else None):
        return f"types are not among: {_shortened(record.dtypes)}"
    return None if is_evaluated(op) else f"{op.requantization} is not known for these types"


def _shortened(forms: tuple[str, ...]) -> str:
    shown = "; ".join(forms[:_SHOWN_FORMS])
    more = len(forms) - _SHOWN_FORMS
    return f"{shown}; and {more} more (docs/supported-ops.md)" if more > 0 else shown


def dtype_text(op: Op) -> str:
    """The op's types in the notation of `OpDef.dtypes`."""
    inputs = " ".join("_" if t is None else t.dtype.name for t in op.inputs)
    return f"{inputs} -> {' '.join(t.dtype.name for t in op.outputs)}"


@lru_cache(maxsize=4096)
def _takes(forms: tuple[str, ...], inputs: tuple[DType | None, ...], output: DType | None) -> bool:
    """Whether operands of some types, None for an omitted one, have one of the forms."""
    return any(_matches(form, inputs, output) for form in forms)


def _matches(form: str, inputs: tuple[DType | None, ...], output: DType | None) -> bool:
    """A trailing input that is not given matches every word."""
    words, _, wanted = form.partition("->")
    result = wanted.strip()
    matched = all(
        name == "_" if dtype is None else name in ("*", dtype.name)
        for name, dtype in zip(words.split(), inputs, strict=False)
    )
    return matched and (result == "*" or (output is not None and result == output.name))
