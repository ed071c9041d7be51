"""Runs passes in order, holds them to what they promise, and says who failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from traceback import walk_tb
from typing import Protocol

from circlet.errors import CircletError, LimitError, PassError
from circlet.ir import Graph, Model, Op
from circlet.ops.verify import violations
from circlet.passes.contract import contract_of
from circlet.passes.log import PassLog, PassReport, State, report_of, state_of
from circlet.passes.totals import Totals, totals

_LOGGER = logging.getLogger(__name__)
_NAMED = 8  # operators of one failure


class Pass(Protocol):
    """A rewrite of one graph; its dataclass fields are its options.

    A pass may have an attribute `needs`, kinds of ops: it is not run on graphs that have none, and
    `makes`, labels of ops of which files hold some: where a file is written, it runs for formats
    that have one. What it promises less than others is in its `contract`; `is_exact = False` alone
    is short for one.
    """

    @property
    def name(self) -> str:
        """What pipelines call it."""
        ...

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; True if anything changed."""
        ...


@dataclass
class _Before:
    """What is known of the network ahead of a pass; totals only where passes are checked."""

    state: State
    totals: Totals | None


@dataclass(frozen=True)
class PassManager:
    """Passes in order.

    Attributes:
        passes: What to run.
        check: Whether to verify the network before the first and after every pass, and that
            nothing grew but what the pass declares.
        rounds: How often to run the whole list, at most, while it changes something.
        lenient: Whether `check` lets operators be whose types no record knows.
    """

    passes: tuple[Pass, ...]
    check: bool = False
    rounds: int = 1
    lenient: bool = False

    @property
    def is_lenient(self) -> bool:
        """Whether operators may have types that no record knows, as some passes leave them."""
        return self.lenient or any(contract_of(item).packs for item in self.passes)

    def run(self, subject: Model | Graph) -> PassLog:
        """Rewrite a model or graph in place; PassError names the pass that failed."""
        log = PassLog()
        for _ in self.steps(subject, log):
            pass
        return log

    def steps(self, subject: Model | Graph, log: PassLog) -> Iterator[PassReport]:
        """Run the passes one by one; each report is in the log when it is given.

        Raises:
            GraphError: The network was unsound before the first pass, which `check` looks for.
            PassError: A pass failed, left an unsound network, or one that costs more.
        """
        before = _Before(state_of(_graphs(subject)), None)
        if self.check:
            self._verify(subject)
            before.totals = totals(subject)
        for number in range(1, self.rounds + 1):
            start = len(log.reports)
            for item in self.passes:
                log.reports.append(self._run_one(item, subject, log, before, number))
                yield log.reports[-1]
            if not any(report.did_something for report in log.reports[start:]):
                log.settled = True
                break

    def _run_one(
        self, item: Pass, subject: Model | Graph, log: PassLog, before: _Before, number: int
    ) -> PassReport:
        """The report of one run; `before` becomes what is known after it."""
        start = time.perf_counter()
        try:
            changed = [item.run(graph) for graph in _rewritten(item, subject)]
            seconds = time.perf_counter() - start
            after = state_of(_graphs(subject)) if any(changed) else before.state
            report = report_of(item.name, before.state, after, seconds, number)
            if self.check:
                self._verify(subject)
                before.totals = _checked_totals(item, subject, before.totals, report)
        except LimitError:
            raise  # of the network, not of the pass
        except Exception as error:
            raise _failure(item, error, log) from error
        before.state = after
        _LOGGER.debug("%s", report)
        return report

    def _verify(self, subject: Model | Graph) -> None:
        is_lenient = self.is_lenient
        for violation in violations(subject):
            if not (is_lenient and violation.rule == "dtypes"):
                raise violation.error()


def _checked_totals(
    item: Pass, subject: Model | Graph, before: Totals | None, report: PassReport
) -> Totals:
    """What a network costs after a pass, which is no more than the pass declares."""
    after = totals(subject)
    grown = contract_of(item).growth(before or after, after)
    if grown:
        where = ", ".join((*report.added, *report.changed)[:_NAMED])
        raise PassError("it made the network cost more than it declares", where=where, why=grown)
    return after


def _rewritten(item: Pass, subject: Model | Graph) -> list[Graph]:
    """The graphs that a pass is run on."""
    graphs = _graphs(subject)
    if contract_of(item).interface:
        inner = {region for graph in graphs for op in graph.ops for region in op.regions}
        graphs = [graph for graph in graphs if graph not in inner]
    return [graph for graph in graphs if _may_apply(item, graph)]


def _may_apply(item: Pass, graph: Graph) -> bool:
    needs: frozenset[str] | None = getattr(item, "needs", None)
    return needs is None or not needs.isdisjoint([op.kind for op in graph.ops])


def _failure(item: Pass, error: Exception, log: PassLog) -> PassError:
    done = f"applied before it: {', '.join(dict.fromkeys(log.applied)) or 'none'}"
    where, why = ", ".join(_ops_at(error)), f"{type(error).__name__}: {error}"
    if isinstance(error, CircletError):
        where = error.where or where
        why = "; ".join(part for part in (error.what, error.why) if part)
    return PassError(f"pass '{item.name}' failed ({done})", where=where, why=why)


def _ops_at(error: Exception) -> list[str]:
    """The operators that a pass was at when it failed: those of the innermost call about any."""
    found: list[Op] = []
    for frame, _ in walk_tb(error.__traceback__):
        own = [value for value in frame.f_locals.values() if isinstance(value, Op)]
        found = own or found
    return [f"{op.name} ({op.label})" for op in dict.fromkeys(found)][:_NAMED]


def _graphs(subject: Model | Graph) -> list[Graph]:
    return subject.graphs if isinstance(subject, Model) else [subject]
