"""Runs passes in order and says what each of them changed, in source names."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from circlet.errors import CircletError, LimitError, PassError
from circlet.escape import escaped
from circlet.ir import Graph, Model, Op
from circlet.ops.verify import verify

_LOGGER = logging.getLogger(__name__)
_State = dict[Op, tuple[object, ...]]


class Pass(Protocol):
    """A rewrite of one graph; its dataclass fields are its options.

    A pass may have an attribute `needs`, kinds of ops: it is not run on graphs that have none.
    """

    @property
    def name(self) -> str:
        """What pipelines call it."""
        ...

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; True if anything changed."""
        ...


@dataclass(frozen=True)
class PassReport:
    """What one run of a pass did to the ops, each given as "KIND source-name"."""

    name: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    seconds: float

    @property
    def did_something(self) -> bool:
        """Whether any op differs."""
        return bool(self.removed or self.added or self.changed)

    def __str__(self) -> str:
        parts = (("-", self.removed), ("+", self.added), ("~", self.changed))
        lines = [f"  {sign} {escaped(op)}" for sign, ops in parts for op in ops]
        return "\n".join([f"{self.name}: {len(lines)} changes in {self.seconds:.4f} s", *lines])


@dataclass
class PassLog:
    """The reports of all passes that ran, in order."""

    reports: list[PassReport] = field(default_factory=list)

    @property
    def applied(self) -> tuple[str, ...]:
        """Names of the passes that ran."""
        return tuple(report.name for report in self.reports)

    def __str__(self) -> str:
        return "\n".join(str(report) for report in self.reports if report.did_something)


@dataclass(frozen=True)
class PassManager:
    """Passes in order.

    Attributes:
        passes: What to run.
        check: Whether to verify the network before the first and after every pass.
        rounds: How often to run the whole list, at most, while it changes something.
    """

    passes: tuple[Pass, ...]
    check: bool = False
    rounds: int = 1

    def run(self, subject: Model | Graph) -> PassLog:
        """Rewrite a model or graph in place; PassError names the pass that failed."""
        log = PassLog()
        if self.check:
            verify(subject)
        state = _state(subject)
        for _ in range(self.rounds):
            before = len(log.reports)
            for item in self.passes:
                report, state = self._run_one(item, subject, log, state)
                log.reports.append(report)
            if not any(report.did_something for report in log.reports[before:]):
                break
        return log

    def _run_one(
        self, item: Pass, subject: Model | Graph, log: PassLog, before: _State
    ) -> tuple[PassReport, _State]:
        """The report of one run, and the ops after it."""
        start = time.perf_counter()
        try:
            changed = [item.run(graph) for graph in _graphs(subject) if _may_apply(item, graph)]
            seconds = time.perf_counter() - start
            if self.check:
                verify(subject)
        except LimitError:
            raise  # of the network, not of the pass
        except Exception as error:
            raise _failure(item, error, log) from error
        after = _state(subject) if any(changed) else before
        report = _report(item.name, before, after, seconds)
        _LOGGER.debug("%s", report)
        return report, after


def _may_apply(item: Pass, graph: Graph) -> bool:
    needs: frozenset[str] | None = getattr(item, "needs", None)
    return needs is None or not needs.isdisjoint([op.kind for op in graph.ops])


def _failure(item: Pass, error: Exception, log: PassLog) -> PassError:
    done = f"applied before it: {', '.join(log.applied) or 'none'}"
    where, why = "", f"{type(error).__name__}: {error}"
    if isinstance(error, CircletError):
        where, why = error.where, "; ".join(part for part in (error.what, error.why) if part)
    return PassError(f"pass '{item.name}' failed ({done})", where=where, why=why)


def _graphs(subject: Model | Graph) -> list[Graph]:
    return subject.graphs if isinstance(subject, Model) else [subject]


def _state(subject: Model | Graph) -> _State:
    ops = (op for graph in _graphs(subject) for op in graph.ops)
    return {op: (op.kind, *op.inputs, None, *op.outputs, id(op.attrs), op.origin) for op in ops}


def _report(name: str, before: _State, after: _State, seconds: float) -> PassReport:
    def lines(ops: Iterator[Op]) -> tuple[str, ...]:
        return tuple(f"{op.label} {op.name}" for op in ops)

    if after is before:
        return PassReport(name, (), (), (), seconds)
    return PassReport(
        name,
        removed=lines(op for op in before if op not in after),
        added=lines(op for op in after if op not in before),
        changed=lines(op for op in after if op in before and after[op] != before[op]),
        seconds=seconds,
    )
