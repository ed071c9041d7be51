"""Partitions that numpy runs: models in artifacts, evaluated by the records of their ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from circlet.backends.base import Observation, ObservedValue, Observer
from circlet.backends.models import ArrayRunner, ModelCompiler, submodel
from circlet.deadline import deadline_after, time_left
from circlet.errors import ArtifactError, BackendError, CancelledError
from circlet.formats import dumps_whole, load_whole
from circlet.ir import Graph, Op, Tensor
from circlet.ir.regions import call_depth, check_unfolded, reachable
from circlet.ir.verify import violations
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops import unsupported_reason
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.guard import UNBOUNDED, AfterOp, Guard
from circlet.ops.verify import op_violations, unsupported_report
from circlet.placement.interface import Reason, Supported
from circlet.plan.partition import Partition

_WORK = "work"


class ReferenceCompiler(ModelCompiler):
    """Takes every op whose record covers its types."""

    name = "reference"

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the op has a record for its types."""
        reason = unsupported_reason(op)
        return Supported("numpy") if reason is None else Reason(reason)

    def sections(self) -> dict[str, tuple[bytes, ...]]:
        """How much work a run may do."""
        return {_WORK: (self.job.most_work.to_bytes(8, "little"),)}

    def stored(self, partition: Partition) -> bytes:
        """The partition in the first format that can say all of it."""
        return dumps_whole(submodel(partition))


def _check(graph: Graph) -> None:
    """Raise the first broken rule; a partition is given the state that its operators update."""
    for violation in violations(graph):
        raise violation.error()
    for tensor in graph.used_tensors():
        if not tensor.has_rank:  # planning settles all ranks; rules of operators ask for them
            raise _damaged(tensor.name, "a tensor of a partition has no rank")
    for op in graph.ops:
        for violation in op_violations(op, graph):
            if violation.rule != "input-updated":
                raise violation.error()


class ReferencePartition:
    """A graph, read from the model in the artifact, that its records evaluate.

    It is held to the same rules as a file of somebody else.

    Raises:
        CircletError: As reading and checking a model.
    """

    def __init__(
        self,
        model: bytes | memoryview,
        limits: Limits = DEFAULT_LIMITS,
        most_work: bytes | memoryview = b"",
    ) -> None:
        stored = load_whole(model, limits)
        call_depth(stored)
        check_unfolded(stored.main, limits)
        for graph in reachable(stored.main):
            _check(graph)
        self._graph = stored.main
        self._limits = limits
        self._most_work = int.from_bytes(most_work, "little") or UNBOUNDED
        unsupported_report(self._graph)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> _Runner:
        """Read and write these buffers; numpy decides about threads itself.

        Raises:
            ArtifactError: The graph has fewer or more inputs or outputs.
        """
        ends = (len(self._graph.inputs), len(self._graph.outputs))
        if ends != (len(inputs), len(outputs)):
            why = "a partition has other inputs or outputs than the plan says"
            raise _damaged(self._graph.name, why)
        guard = Guard(limits=self._limits, most_work=self._most_work)
        return _Runner(self._graph, guard, inputs, outputs)


class _Runner(ArrayRunner):
    keeps_timeouts = True

    def __init__(
        self,
        graph: Graph,
        guard: Guard,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        super().__init__(inputs, outputs)
        self._graph, self._guard = graph, guard
        self._after_op: AfterOp | None = None

    def run(self, timeout_ns: int = 0) -> None:
        self.is_cancelled = False
        deadline = deadline_after(timeout_ns)

        def check() -> None:
            if self.is_cancelled:
                raise CancelledError("the run was cancelled")
            time_left(deadline)

        budget = self._guard.limits.memory_budget(0)
        guard = replace(self._guard, before_op=check, after_op=self._after_op, budget=budget)
        results = evaluate_graph(self._graph, self.inputs, guard)
        for index, (tensor, result) in enumerate(zip(self._graph.outputs, results, strict=True)):
            if None in tensor.shape:
                self.outputs[index] = result
                continue
            target = self.outputs[index]
            if target.shape != result.shape:
                raise _other_shape(tensor.name, target.shape, result.shape)
            target[...] = result

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op, those of branches and loops included."""
        self._after_op = None if observer is None else partial(_tell, observer)


def _tell(observer: Observer, op: Op, results: Sequence[np.ndarray], ns: int) -> None:
    pairs = zip(op.outputs, results, strict=False)
    observer(Observation(op.label, op.name, ns, tuple(_seen(*pair) for pair in pairs)))


def _seen(tensor: Tensor, array: np.ndarray) -> ObservedValue:
    view = array.view()
    view.flags.writeable = False
    quant = tensor.quant
    if quant is None or not quant.is_affine:
        return ObservedValue(tensor.name, view)
    scale, zero_point = tuple(quant.scale.tolist()), tuple(quant.zero_point.tolist())
    return ObservedValue(tensor.name, view, scale, zero_point, quant.axis)


def _damaged(where: str, why: str) -> ArtifactError:
    fix = "compile the model again"
    return ArtifactError("an artifact is damaged or is none", where=where, why=why, fix=fix)


def _other_shape(name: str, planned: tuple[int, ...], got: tuple[int, ...]) -> BackendError:
    return BackendError(
        "a result has another shape than planned",
        where=name,
        why=f"it is {list(got)}, planned were {list(planned)}; the shape depends on the data",
        fix="give inputs whose sizes belong together, or plan for theirs: `shapes` of "
        "circlet.Session, --shape of commands",
    )
