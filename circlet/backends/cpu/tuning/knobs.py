"""Tuning knobs: what lowerings choose where one op can be computed in several ways.

A lowering calls `Context.choose` with a `Knob`. Without tuning the least predicted time wins, so
that the same network becomes the same code on every machine. Tuning records the knobs of a
network, measures other candidates, and compiles again with those that won.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from circlet.ir import Op, Tensor

T = TypeVar("T")


class Knob(NamedTuple, Generic[T]):
    """Ways to compute the same, of which a lowering takes one.

    Attributes:
        name: What is chosen, by the name of a row of the table of variants, and whatever tells
            several knobs of one op apart.
        candidates: The ways, the least predicted time first.
        cost: The predicted time of one, in any unit that is the same for all.
        is_there: Whether the code and the constants of another size of the network serve it.
        patience: How many times the least time one that is there may take, before code is compiled.
    """

    name: str
    candidates: Sequence[T]
    cost: Callable[[T], float]
    is_there: Callable[[T], bool]
    patience: float = inf

    def default(self, *, reuses: bool) -> T:
        """The least predicted time; for another size of a network, among those that are there."""
        first = self.candidates[0]
        if not reuses:
            return first
        best = next(filter(self.is_there, self.candidates), first)
        is_slow = self.patience < inf and self.cost(best) > self.patience * self.cost(first)
        return first if is_slow else best


class KnobReport(NamedTuple):
    """A knob that came up: labels of all candidates, their costs, and which was taken.

    Attributes:
        workload: What the ops that it is about have in common, as `workload_of` names it.
        ops: Their names.
    """

    name: str
    workload: str
    labels: tuple[str, ...]
    costs: tuple[float, ...]
    taken: str
    ops: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What names it among all knobs of a network."""
        return f"{self.name} of {self.workload}"


@dataclass
class KnobSettings:
    """Candidates that are wanted, and the knobs that came up.

    Attributes:
        wanted: Labels of candidates by `KnobReport.key`; one that is no candidate is ignored.
        knobs: Those with more than one candidate, by key, in the order of the network.
    """

    wanted: Mapping[str, str] = field(default_factory=dict)
    knobs: dict[str, KnobReport] = field(default_factory=dict)

    def take(self, op: Op, knob: Knob[T], default: T) -> T:
        """The wanted candidate, or the default."""
        if len(knob.candidates) < 2:
            return default
        labelled = {label_of(candidate): candidate for candidate in knob.candidates}
        costs = tuple(map(knob.cost, labelled.values()))
        new = KnobReport(knob.name, workload_of(op), tuple(labelled), costs, label_of(default))
        taken = labelled.get(self.wanted.get(new.key, new.taken), default)
        known = self.knobs.get(new.key, new._replace(taken=label_of(taken)))
        self.knobs[new.key] = known._replace(ops=(*known.ops, op.name))
        return taken


def always_there(candidate: object) -> bool:
    """`is_there` of a knob that is made anew for every size of a network."""
    return True


def joined(sizes: Iterable[object]) -> str:
    """Numbers and words joined by x."""
    return "x".join(map(str, sizes))


def label_of(candidate: object) -> str:
    """A candidate for people and artifacts: its numbers and words, by their names if it has any."""
    fields: Sequence[str] = getattr(candidate, "_fields", ())
    if fields:
        named = ((name.replace("_", " "), getattr(candidate, name)) for name in fields)
        return ", ".join(f"{name} {_plain_label(value)}" for name, value in named)
    return _plain_label(candidate)


def _plain_label(candidate: object) -> str:
    if isinstance(candidate, (tuple, list)):
        return joined(map(_plain_label, candidate))
    if isinstance(candidate, bool):
        return "yes" if candidate else "no"
    return f"{candidate:g}" if isinstance(candidate, float) else str(candidate)


def workload_of(op: Op) -> str:
    """The kind, types, sizes and options of an op: those that share it share their settings."""
    tensors = " ".join(_described(t) for t in op.inputs if t is not None)
    results = " ".join(map(_described, op.outputs))
    options = blake2b(_options(op).encode(), digest_size=3).hexdigest()
    return f"{op.label} {tensors} -> {results} ({options})"


def _described(tensor: Tensor) -> str:
    return f"{tensor.dtype.value}[{','.join(map(str, tensor.shape))}]"


def _options(op: Op) -> str:
    from circlet.ops.fused import parts_of  # Here, as runs need no records of operators.

    return ";".join(map(workload_of, parts_of(op))) or repr(op.attrs)
