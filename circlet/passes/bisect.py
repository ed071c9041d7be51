"""Finds the first run of a pass that changes what a network computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import Model, Op, Tensor
from circlet.ir.copy import copy_of
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.guard import AfterOp, Guard
from circlet.passes.contract import contract_of, difference
from circlet.passes.log import PassLog, PassReport
from circlet.passes.manager import PassManager

Arrays = Sequence[np.ndarray]
_NAMED = 20  # operators of one culprit


@dataclass(frozen=True)
class Step:
    """One run of a pass that rewrote something, and what came of it.

    Attributes:
        name: The pass.
        round: Which run of the whole list it belongs to, from 1.
        changes: Operators that it removed, added or changed.
        difference: How far results are from those before it, as `contract.difference` measures it.
        whole_difference: How far they are from those of the network as it was given.
        allowed: What the difference that decides may be.
    """

    name: str
    round: int
    changes: int
    difference: float
    whole_difference: float
    allowed: float


@dataclass(frozen=True)
class Culprit:
    """The first step whose results are too far from what they should be.

    Attributes:
        step: What is known of it.
        operators: The first operator whose results differ, as "KIND source-names", or, where none
            of those that are left is the first, what the pass removed, added and changed.
        tensor: The first tensor that differs, "" where only outputs do.
        tensor_difference: By how much it does.
        applied: The passes that ran before, each once.
    """

    step: Step
    operators: tuple[str, ...]
    tensor: str
    tensor_difference: float
    applied: tuple[str, ...]


@dataclass(frozen=True)
class Bisection:
    """What was found: the steps up to the culprit, or all where there is none."""

    steps: tuple[Step, ...]
    culprit: Culprit | None


def bisect(
    model: Model,
    manager: PassManager,
    inputs: Arrays,
    tolerance: float | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Bisection:
    """Run passes one by one over a network, which they rewrite, until its results differ.

    Numpy computes them, by the records of the operators; what native kernels add is not seen.

    Args:
        model: The network; its main graph is run.
        manager: The passes.
        inputs: One array for each of the inputs of the main graph that no constant is.
        tolerance: How far results may be from those of the network as it was given; None where
            each pass is held to what it declares, against the results before it.

    Raises:
        PassError: A pass failed.
        BackendError, LimitError: As `evaluate_graph`.
    """
    first = latest = _results(model, inputs, limits)
    before, log, steps = _Snapshot.of(model), PassLog(), list[Step]()
    contracts = {item.name: contract_of(item) for item in manager.passes}
    for report in manager.steps(model, log):
        if not report.rewrote:
            continue
        results = _results(model, inputs, limits)
        apart, whole = difference(results, latest), difference(results, first)
        allowed = contracts[report.name].tolerance if tolerance is None else tolerance
        changes = len(report.removed) + len(report.added) + len(report.changed)
        steps.append(Step(report.name, report.round, changes, apart, whole, allowed))
        if (apart if tolerance is None else whole) > allowed:
            place = _first_difference(before, model, inputs, limits, allowed)
            applied = tuple(dict.fromkeys(log.applied[:-1]))
            return Bisection(tuple(steps), _culprit(steps[-1], report, place, applied))
        before, latest = _Snapshot.of(model), results
    return Bisection(tuple(steps), None)


@dataclass(frozen=True)
class _Snapshot:
    """A copy of a network, and which of its tensors stands for which."""

    model: Model
    twins: dict[Tensor, Tensor]

    @staticmethod
    def of(model: Model) -> _Snapshot:
        copy = copy_of(model)
        pair = model.main.used_tensors(), copy.main.used_tensors()
        return _Snapshot(copy, dict(zip(*pair, strict=True)))


@dataclass(frozen=True)
class _Place:
    """The first tensor that differs, who makes it, and by how much."""

    op: Op
    tensor: Tensor
    difference: float


def _culprit(
    step: Step, report: PassReport, place: _Place | None, applied: tuple[str, ...]
) -> Culprit:
    if place is None:
        touched = (*report.removed, *report.added, *report.changed)[:_NAMED]
        return Culprit(step, touched, "", step.difference, applied)
    named = (f"{place.op.label} {place.op.name}",)
    return Culprit(step, named, place.tensor.name, place.difference, applied)


def _results(
    model: Model, inputs: Arrays, limits: Limits, after_op: AfterOp | None = None
) -> list[np.ndarray]:
    """What the main graph computes; the arrays of constants among its inputs are their own."""
    guard = Guard(
        limits=limits,
        after_op=after_op,
        most_work=limits.allowed_work(model.source_bytes),
        budget=limits.memory_budget(model.source_bytes),
    )
    rest = iter(inputs)
    given = [next(rest) if t.data is None else t.data for t in model.main.inputs]
    return evaluate_graph(model.main, given, guard)


def _first_difference(
    before: _Snapshot, model: Model, inputs: Arrays, limits: Limits, allowed: float
) -> _Place | None:
    """The first tensor that holds other values than before the pass, of those that it left.

    Tensors whose types or sizes the pass changed say nothing, nor what is beyond the limits of
    memory.
    """
    held: dict[Tensor, np.ndarray] = {}
    budget = limits.memory_budget(model.source_bytes)
    places: list[_Place] = []
    own, twins = frozenset(model.main.ops), before.twins

    def hold(op: Op, results: Arrays, _: int) -> None:
        size = sum(array.nbytes for array in results)
        if size <= budget.left:
            budget.taken += size
            held.update(zip(op.outputs, results, strict=False))

    def compare(op: Op, results: Arrays, _: int) -> None:
        for tensor, value in zip(op.outputs if op in own else (), results, strict=False):
            twin = twins.get(tensor)
            if twin in held and _is_alike(tensor, twin):
                places.append(_Place(op, tensor, difference([value], [held[twin]])))

    _results(before.model, inputs, limits, hold)
    _results(model, inputs, limits, compare)
    far = (place for place in places if place.difference > allowed)
    largest = max(places, key=lambda place: place.difference, default=None)
    found = next(far, largest)
    return found if found is not None and found.difference > 0 else None


def _is_alike(tensor: Tensor, twin: Tensor) -> bool:
    same = tensor.dtype is twin.dtype and tensor.shape == twin.shape
    return same and tensor.quant is twin.quant
