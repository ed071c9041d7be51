"""The rules of operator records over a graph, and the report of operators that cannot be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from circlet.errors import CircletError, UnsupportedOp, UnsupportedOpsError
from circlet.ir import Graph, Model, Op, Tensor
from circlet.ir import verify as ir_verify
from circlet.ir.verify import Violation
from circlet.ops.opdef import OpDef, Rule, TensorType, dtype_text, find, unsupported_reason
from circlet.ops.operands import sizes_agree
from circlet.ops.state import updated
from circlet.words import counted


@dataclass(frozen=True)
class RecordRule:
    """A condition that a record puts on an op: `fault(op, record)` says what is wrong, or None."""

    name: str
    fault: Callable[[Op, OpDef], str | None]


def _arity(op: Op, record: OpDef) -> str | None:
    fewest, most = record.arity
    if fewest <= len(op.inputs) <= most:
        return None
    expected = counted(most, "input") if fewest == most else f"{fewest} to {most} inputs"
    return f"{op.label} takes {expected}, not {len(op.inputs)}"


def _required(op: Op, record: OpDef) -> str | None:
    missing = [i for i in range(record.required) if op.input(i) is None]
    return f"{op.label} lacks its input {missing[0]}" if missing else None


def _outputs(op: Op, record: OpDef) -> str | None:
    wanted = max(1, len(op.outputs)) if record.outputs is None else record.outputs
    if len(op.outputs) == wanted:
        return None
    return f"{op.label} has {counted(wanted, 'output')}, not {len(op.outputs)}"


def _attributes(op: Op, record: OpDef) -> str | None:
    if isinstance(op.attrs, record.attrs):
        return None
    found = type(op.attrs).__name__
    return f"{op.label} has attributes {record.attrs.__name__}, not {found}"


def _dtypes(op: Op, record: OpDef) -> str | None:
    reason = unsupported_reason(op)
    return None if reason is None else f"{op.label} ({dtype_text(op)}): {reason}"


def _ranked(op: Op) -> bool:
    """Whether every operand has dimensions that can be counted; if not, a later look will say."""
    for tensor in op.inputs:  # noqa: SIM110  (several times faster than `all`, and often asked)
        if tensor is not None and not tensor.has_rank:
            return False
    return True


def _own_rules(op: Op, record: OpDef) -> str | None:
    return _first_broken(op, record.rules)


def _rules_of_sizes(op: Op, record: OpDef) -> str | None:
    return _first_broken(op, record.sized_rules)


def _first_broken(op: Op, rules: Sequence[Rule]) -> str | None:
    if not _ranked(op):
        return None
    for rule in rules:
        if not rule.holds(op):
            return f"{op.label}: {rule.message} ({rule.name})"
    return None


def _inferred(op: Op, record: OpDef) -> str | None:
    if not _ranked(op):
        return None
    try:
        fault = _misfit(op, record.infer(op))
    except CircletError as error:
        return f"{op.label}: {error.what}" + (f" ({error.why})" if error.why else "")
    return f"{op.label}: {fault}" if fault else None


def _misfit(op: Op, types: Sequence[TensorType]) -> str | None:
    """How the declared outputs of an op differ from the types that its record infers."""
    if len(types) != len(op.outputs):
        return f"it has {counted(len(types), 'output')}, not {len(op.outputs)}"
    for tensor, inferred in zip(op.outputs, types, strict=True):
        if fault := _disagreement(tensor, inferred):
            return fault
    return None


def _disagreement(declared: Tensor, inferred: TensorType) -> str | None:
    same = declared.dtype is inferred.dtype
    if same and (not declared.has_rank or sizes_agree(declared.shape, inferred.shape)):
        return None
    found = Tensor(declared.name, inferred.dtype, inferred.shape)
    return f"the output is declared {declared!r} but computes {found!r}"


_OPERAND_RULES = (
    RecordRule("arity", _arity),
    RecordRule("required-inputs", _required),
    RecordRule("output-count", _outputs),
    RecordRule("attributes", _attributes),
    RecordRule("dtypes", _dtypes),
    RecordRule("record-rules", _own_rules),
)
_WHY = {
    "arity": "the operator takes another number of inputs",
    "required-inputs": "the operator cannot do without this input",
    "output-count": "the operator gives another number of outputs",
    "attributes": "its options are those of another operator",
    "dtypes": "the operator is not defined for these types",
    "record-rules": "its inputs and options do not go together",
    "inferred-types": "what the file declares does not follow from the operator's inputs",
}
_SIZE_RULES = (RecordRule("record-rules", _rules_of_sizes),)
RECORD_RULES = (*_OPERAND_RULES, RecordRule("inferred-types", _inferred))


def violations(subject: Model | Graph) -> Iterator[Violation]:
    """Every broken rule: the graph's own first and, only if those hold, those of the records."""
    broken = list(ir_verify.violations(subject))
    yield from broken
    if broken:
        return
    for graph in _graphs(subject):
        for op in graph.ops:
            yield from op_violations(op, graph)


def verify(subject: Model | Graph) -> None:
    """Raise GraphError for the first broken rule, if there is one."""
    for violation in violations(subject):
        raise violation.error()


def unsupported_ops(subject: Model | Graph) -> list[UnsupportedOp]:
    """Every op that has no record, or none for its types, in the user's terms."""
    return [
        UnsupportedOp(op.name, op.label, op.version, dtype_text(op), reason)
        for graph in _graphs(subject)
        for op in graph.ops
        if (reason := unsupported_reason(op)) is not None
    ]


def unsupported_report(subject: Model | Graph) -> None:
    """Raise one UnsupportedOpsError that lists every op that cannot be run, if there is one."""
    entries = unsupported_ops(subject)
    if entries:
        where = subject.source_path if isinstance(subject, Model) else subject.name
        raise UnsupportedOpsError(entries, where=where)


def _graphs(subject: Model | Graph) -> list[Graph]:
    return subject.graphs if isinstance(subject, Model) else [subject]


def checked_types(op: Op, graph: Graph, *, resized: bool = False) -> Sequence[TensorType]:
    """The types that an op's record infers for its outputs; none where it has no record.

    `resized` says that the op broke no rule at other sizes: only what sizes decide is checked.

    Raises:
        GraphError: The op breaks a rule of its record.
    """
    record = find(op.label)
    if record is None:
        return ()
    for violation in op_violations(op, graph, _SIZE_RULES if resized else _OPERAND_RULES):
        raise violation.error()
    try:
        types = record.infer(op)
    except CircletError:
        for violation in op_violations(op, graph):
            raise violation.error() from None
        raise
    if _ranked(op) and (fault := _misfit(op, types)):
        raise _violation("inferred-types", f"{op.label}: {fault}", op, graph).error()
    return types


def _violation(rule: str, fault: str, op: Op, graph: Graph) -> Violation:
    return Violation(rule, fault, graph.name, f"{op.name} ({op.label})", why=_WHY[rule])


def op_violations(
    op: Op, graph: Graph, rules: Sequence[RecordRule] = RECORD_RULES
) -> Iterator[Violation]:
    """The first rule of its record that an op breaks, if it has one and breaks any."""
    record = find(op.label)
    if record is None:
        return
    for rule in rules:
        fault = rule.fault(op, record)
        if fault is not None:
            yield _violation(rule.name, fault, op, graph)
            return
    for tensor in updated(op) if record.updates else ():
        if tensor in graph.inputs:
            message = f"{op.label} updates a tensor that the caller gives"
            yield Violation("input-updated", message, graph.name, op.name, tensor.name)
