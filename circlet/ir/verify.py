"""The rules every graph keeps, as tables of (name, predicate, message), and who breaks them.

Rules of one table are checked in order and, for one subject, only while all before them held.
Everything here is linear in the size of the graph. The rules of operator kinds are in
`circlet.ops.verify`, which checks these first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from circlet.errors import GraphError
from circlet.ir import verify_tensor
from circlet.ir.graph import Graph, Model, Op, Signature, Tensor
from circlet.ir.origin import Origin
from circlet.ir.regions import call_depth


@dataclass(frozen=True)
class Violation:
    """One broken rule and its place in the user's terms; `why` explains more than its name."""

    rule: str
    message: str
    graph: str = ""
    op: str = ""
    tensor: str = ""
    why: str = ""

    @property
    def where(self) -> str:
        """The place as text: operator, tensor and graph, as far as they are known."""
        parts = (("operator", self.op), ("tensor", self.tensor), ("graph", self.graph))
        return ", ".join(f"{label} '{name}'" for label, name in parts if name)

    def error(self) -> GraphError:
        """The violation as an exception."""
        return GraphError(
            self.message,
            where=self.where,
            why=self.why or f"it breaks the rule '{self.rule}' of sound networks",
        )


@dataclass(frozen=True)
class Facts:
    """What the rules of one graph look up, gathered in one walk."""

    listed: frozenset[Tensor]
    inputs: frozenset[Tensor]
    writes: Counter[Tensor]
    first_write: dict[Tensor, int]
    position: dict[Op, int]

    @staticmethod
    def of(graph: Graph) -> Facts:
        """The facts of a graph."""
        written = [(t, index) for index, op in enumerate(graph.ops) for t in op.outputs]
        return Facts(
            listed=frozenset(graph.tensors),
            inputs=frozenset(graph.inputs),
            writes=Counter(tensor for tensor, _ in written),
            first_write=dict(reversed(written)),
            position={op: index for index, op in reversed(list(enumerate(graph.ops)))},
        )

    def has_value(self, tensor: Tensor) -> bool:
        """Whether a tensor is known, given from outside, or written by some op."""
        given = tensor.is_constant or tensor.is_variable or tensor in self.inputs
        return given or tensor in self.writes


Subject = TypeVar("Subject", Graph, Op)


@dataclass(frozen=True)
class FactRule(Generic[Subject]):
    """A condition on an op or a graph: `culprits(subject, facts)` are the tensors that break it.

    None among the culprits blames the subject itself.
    """

    name: str
    culprits: Callable[[Subject, Facts], Iterator[Tensor | None]]
    message: str


def _unlisted(tensors: Sequence[Tensor | None], facts: Facts) -> Iterator[Tensor]:
    return (t for t in tensors if t is not None and t not in facts.listed)


def _op_unlisted(op: Op, facts: Facts) -> Iterator[Tensor]:
    return _unlisted([*op.inputs, *op.outputs, *op.intermediates], facts)


def _unnamed_kind(op: Op, facts: Facts) -> Iterator[None]:
    if not op.kind or (op.kind == "CUSTOM" and not op.custom_code):
        yield None


def _has_origin(op: Op) -> bool:
    origin: object = op.origin
    return isinstance(origin, Origin)


def _without_origin(op: Op, facts: Facts) -> Iterator[None]:
    if not _has_origin(op):
        yield None


def _undefined_inputs(op: Op, facts: Facts) -> Iterator[Tensor]:
    if op.kind == "CUSTOM":  # Some bring scratch memory along as an input.
        return iter(())
    return (t for t in op.inputs if t is not None and not facts.has_value(t))


def _late_inputs(op: Op, facts: Facts) -> Iterator[Tensor]:
    here = facts.position[op]
    used = (t for t in op.inputs if t is not None and not t.is_variable)
    return (t for t in used if facts.first_write.get(t, -1) >= here)


def _written_constants(op: Op, facts: Facts) -> Iterator[Tensor]:
    return (t for t in op.outputs if t.is_constant)


def _written_inputs(op: Op, facts: Facts) -> Iterator[Tensor]:
    return (t for t in op.outputs if t in facts.inputs)


def _rewritten(op: Op, facts: Facts) -> Iterator[Tensor]:
    here = facts.position[op]
    written = Counter(op.outputs).items()
    return (t for t, count in written if count > 1 or facts.first_write[t] < here)


def _repeated(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    return (tensor for tensor, count in Counter(tensors).items() if count > 1)


def _unknown_requantization(op: Op, facts: Facts) -> Iterator[None]:
    if op.requantization is not None and not op.requantization.is_known:
        yield None


OP_RULES: tuple[FactRule[Op], ...] = (
    FactRule("kind", _unnamed_kind, "an operator has no kind, or a custom one no code"),
    FactRule("origin", _without_origin, "an operator has no origin"),
    FactRule(
        "requantization",
        _unknown_requantization,
        "an operator requantises in a way that is not defined",
    ),
    FactRule("op-tensors", _op_unlisted, "an operator uses a tensor of another graph"),
    FactRule("constant-written", _written_constants, "an operator writes a constant"),
    FactRule("input-written", _written_inputs, "an operator writes a graph input"),
    FactRule("one-producer", _rewritten, "a tensor is written more than once"),
    FactRule("defined", _undefined_inputs, "an operator reads a tensor that nothing writes"),
    FactRule("order", _late_inputs, "an operator reads a tensor before it is written, or a cycle"),
)

GRAPH_RULES: tuple[FactRule[Graph], ...] = (
    FactRule(
        "op-once",
        lambda g, f: iter([None] * (len(g.ops) > len(f.position))),
        "an operator stands in the graph twice",
    ),
    FactRule("tensors-once", lambda g, f: _repeated(g.tensors), "a tensor is listed twice"),
    FactRule("inputs-once", lambda g, f: _repeated(g.inputs), "a graph input is named twice"),
    FactRule(
        "boundary",
        lambda g, f: _unlisted([*g.inputs, *g.outputs], f),
        "a graph input or output belongs to another graph",
    ),
    FactRule(
        "output-defined",
        lambda g, f: (t for t in g.outputs if not f.has_value(t)),
        "nothing writes a graph output",
    ),
)


Boundaries = dict[Graph, tuple[frozenset[Tensor], frozenset[Tensor]]]


@dataclass(frozen=True)
class SignatureRule:
    """A condition on a signature within its model."""

    name: str
    holds: Callable[[Signature, Boundaries], bool]
    message: str


def _tensors_belong(signature: Signature, boundaries: Boundaries) -> bool:
    inputs, outputs = boundaries[signature.graph]
    ours = inputs.issuperset(signature.inputs.values())
    return ours and outputs.issuperset(signature.outputs.values())


SIGNATURE_RULES: tuple[SignatureRule, ...] = (
    SignatureRule(
        "signature-graph",
        lambda signature, boundaries: signature.graph in boundaries,
        "a signature names a graph that is not in the model",
    ),
    SignatureRule(
        "signature-tensors", _tensors_belong, "a signature names what is no graph input or output"
    ),
)


def rule_names() -> list[str]:
    """Names of all rules of this module, tensors' included."""
    tables = (verify_tensor.TENSOR_RULES, OP_RULES, GRAPH_RULES, SIGNATURE_RULES)
    return [rule.name for table in tables for rule in table] + ["regions", "recursion"]


def violations(subject: Model | Graph) -> Iterator[Violation]:
    """Every broken rule of a model or a graph, in a stable order."""
    for graph in subject.graphs if isinstance(subject, Model) else [subject]:
        yield from _graph_violations(graph)
    if isinstance(subject, Model):
        yield from _signature_violations(subject)
        yield from _call_violations(subject)


def verify(subject: Model | Graph) -> None:
    """Raise GraphError for the first broken rule, if there is one."""
    for violation in violations(subject):
        raise violation.error()


def _graph_violations(graph: Graph) -> Iterator[Violation]:
    facts = Facts.of(graph)
    yield from _first_broken(GRAPH_RULES, graph, facts, graph.name, "")
    for tensor in graph.tensors:
        rule = verify_tensor.broken_rule(tensor)
        if rule is not None:
            yield Violation(rule.name, rule.message, graph.name, tensor=tensor.name)
    for op in graph.ops:
        yield from _first_broken(OP_RULES, op, facts, graph.name, _op_name(op))


def _first_broken(
    rules: Sequence[FactRule[Subject]], subject: Subject, facts: Facts, graph: str, op: str
) -> Iterator[Violation]:
    for rule in rules:
        culprits = list(rule.culprits(subject, facts))
        for tensor in culprits:
            name = "" if tensor is None else tensor.name
            yield Violation(rule.name, rule.message, graph, op, name)
        if culprits:
            return


def _op_name(op: Op) -> str:
    return f"{op.name} ({op.label})" if _has_origin(op) else op.label


def _signature_violations(model: Model) -> Iterator[Violation]:
    boundaries = {g: (frozenset(g.inputs), frozenset(g.outputs)) for g in model.graphs}
    for signature in model.signatures:
        broken = (rule for rule in SIGNATURE_RULES if not rule.holds(signature, boundaries))
        for rule in broken:
            yield Violation(rule.name, rule.message, signature.graph.name, tensor=signature.key)
            break


def _call_violations(model: Model) -> Iterator[Violation]:
    """Ops that run graphs of other models, and graphs that run themselves."""
    known = frozenset(model.graphs)
    for graph in model.graphs:
        for op in graph.ops:
            if not known.issuperset(op.regions):
                message = "an operator runs a graph that is not in the model"
                yield Violation("regions", message, graph.name, _op_name(op))
    try:
        call_depth(model)
    except GraphError as error:
        yield Violation("recursion", error.what, error.where)
