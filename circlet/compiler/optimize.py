"""A better model file of a model: passes, without choosing who runs what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError, InputError, PassError
from circlet.formats import load, save
from circlet.ir import Model
from circlet.ir.copy import copy_of
from circlet.ir.regions import reachable
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.verify import violations
from circlet.passes import Pass, PassLog, PassManager, PassReport, file_pipeline
from circlet.passes.bisect import Bisection, bisect
from circlet.passes.selection import ROUNDS, charged, read_pass
from circlet.passes.totals import Totals, file_totals, totals
from circlet.stored import Bytes, Stored, StrPath

Source = StrPath | Bytes | Stored | Model
# Blobs about operators and tensors by their numbers, which other operators have afterwards.
_NUMBERED = ("ONE_execution_plan_table", "OfflineMemoryAllocation")


@dataclass(frozen=True)
class Optimized:
    """A rewritten model, and what was done to it.

    Attributes:
        model: The model, to be saved or run.
        before, after: Operators, of the file and of the model, multiply-accumulates, bytes moved,
            bytes of constants.
        log: What each run of a pass changed, in the user's names.
        dropped: Names of metadata that no longer fit the operators, and are left out.
    """

    model: Model
    before: Totals
    after: Totals
    log: PassLog
    dropped: tuple[str, ...] = ()

    def save(self, path: StrPath, format: str | None = None) -> None:
        """Write the model, with the origins of its operators, in the format of the file's name.

        Raises:
            InputError: The name ends as those of no format.
            FormatError: The format cannot say something; the message names the operator.
            FileError: The file cannot be written.
        """
        save(self.model, path, format, origins=True)


class Optimizer:
    """A model on its way through passes, one of which is run at a time.

    Args:
        source: A file, its bytes, or a model, which stays as it is.
        passes: What to run.
        check: Whether rules and promises are looked at after every pass, not only at the end.
        rounds: How often to run the whole list, at most, while it changes something.
        limits: Bounds of what may be made of the file.

    Raises:
        FileError, FormatError: The source cannot be read.
        GraphError: It is unsound, whatever passes do.
    """

    def __init__(
        self,
        source: Source,
        passes: Sequence[Pass],
        *,
        check: bool = False,
        rounds: int = ROUNDS,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self.model = copy_of(source) if isinstance(source, Model) else load(source, limits)
        if not self.model.graphs:
            raise GraphError("the model holds no graph", where=self.model.source_path)
        unknown = _sound(self.model)
        self._before, self._log = file_totals(self.model), PassLog()
        budget = limits.memory_budget(self.model.source_bytes or self._before.constant_bytes)
        self._manager = PassManager(charged(passes, budget), check, rounds, unknown)

    def steps(self) -> Iterator[PassReport]:
        """Run the passes one by one; `model` is as the pass left it whenever a report is given."""
        used = _used(self.model)
        yield from self._manager.steps(self.model, self._log)
        gone = used - _used(self.model)
        self.model.graphs[:] = [graph for graph in self.model.graphs if graph not in gone]

    def result(self) -> Optimized:
        """The model after `steps`.

        Raises:
            PassError: The passes left it unsound.
        """
        for violation in violations(self.model):
            if not (self._manager.is_lenient and violation.rule == "dtypes"):
                raise _unsound(violation.error(), self._log)
        changed = any(report.rewrote for report in self._log.reports)
        dropped = [name for name in _NUMBERED if changed and name in self.model.metadata]
        for name in dropped:
            del self.model.metadata[name]
        after = totals(self.model)
        return Optimized(self.model, self._before, after, self._log, tuple(dropped))

    def bisect(self, inputs: Sequence[np.ndarray], tolerance: float | None = None) -> Bisection:
        """Find the first run of a pass that changes results; as `circlet.passes.bisect.bisect`."""
        return bisect(self.model, self._manager, inputs, tolerance, self._limits)


def optimize(
    source: Source,
    level: str = "O2",
    *,
    format: str = "tflite",
    passes: Sequence[str | Pass] | None = None,
    check: bool = False,
    rounds: int = ROUNDS,
    limits: Limits = DEFAULT_LIMITS,
) -> Optimized:
    """Rewrite a network into a better one that computes the same, to be saved as a file.

    Args:
        source: A .tflite, .circle or .onnx file, its bytes, or a model, which stays as it is.
        level: O0, O1, which keeps results number by number, O2 or Os.
        format: What the file will be, "tflite" or "circle"; the latter has more operators.
        passes: Names (options behind them, as `"split-sums most=4"`) or passes in place of a level.
        check: Whether every pass is held to the rules of networks and to what it promises.
        rounds: How often the list is run, at most, while it changes something.
        limits: Bounds of what may be made of the file.

    Raises:
        FileError, FormatError, GraphError, LimitError: The source cannot be read, or is unsound.
        InputError: There is no such level, pass or option.
        PassError: A pass failed; the message names it, the operators, and the passes before it.
    """
    if passes is None:
        chosen = file_pipeline(level, format).passes
    else:
        chosen = tuple(read_pass(item) if isinstance(item, str) else item for item in passes)
    if rounds < 1:
        raise InputError("passes run once at least", where=f"rounds={rounds}")
    optimizer = Optimizer(source, chosen, check=check, rounds=rounds, limits=limits)
    for _ in optimizer.steps():
        pass
    return optimizer.result()


def _sound(model: Model) -> bool:
    """Whether operators have types that no record knows; what else is unsound is an error."""
    found = False
    for violation in violations(model):
        if violation.rule != "dtypes":
            raise violation.error()
        found = True
    return found


def _unsound(error: GraphError, log: PassLog) -> PassError:
    applied = ", ".join(dict.fromkeys(log.applied))
    return PassError(
        f"the passes left an unsound network (applied: {applied})",
        where=error.where,
        why=(error.what, *error.reasons),
        fix="optimise with `check`, which names the pass, and report the model",
    )


def _used(model: Model) -> set[object]:
    """The graphs that the main graph or a signature runs."""
    entries = [model.main, *(signature.graph for signature in model.signatures)]
    return {graph for entry in entries for graph in reachable(entry)}
