"""What `circlet memory` does, as a function: a request in, plain data out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from circlet.options import DEFAULT_OPTIONS, Options
from circlet.profiling.budget import Suggestion, check_budget, suggestions
from circlet.profiling.memory import MemoryReport, plan_memory
from circlet.profiling.phases import ProcessMemory, measure_phases


@dataclass(frozen=True)
class MemoryRequest:
    """What `circlet memory` is asked for.

    Attributes:
        budget_bytes: What the plan may need; None for no bound.
        process: Whether to measure a process that runs the network.
        advise: Whether to compute what would lower the plan, with no budget too.
    """

    model: Path
    options: Options = DEFAULT_OPTIONS
    threads: int | None = None
    budget_bytes: int | None = None
    process: bool = True
    advise: bool = False


@dataclass(frozen=True)
class MemoryAnswer:
    """The plan, the process that was measured, and what would lower the plan."""

    plan: MemoryReport
    process: ProcessMemory | None
    suggestions: tuple[Suggestion, ...]
    budget_bytes: int | None

    def as_json(self) -> dict[str, object]:
        """Plain data for JSON, sums included."""
        plan = self.plan
        sums = {
            "planned_bytes": plan.planned_bytes,
            "arena_bytes": plan.arena_bytes,
            "scratch_bytes": plan.scratch_bytes,
            "values_bytes": plan.values_bytes,
            "once_bytes": plan.once_bytes,
            "packed_bytes": plan.packed_bytes,
        }
        return {**sums, **asdict(self)}


def memory_of(request: MemoryRequest) -> MemoryAnswer:
    """Plan a network's memory, hold it to a budget, and measure it.

    Raises:
        LimitError: It needs more than the budget; `fix` says what would help by how much.
        CircletError: As `circlet.profiling.memory.plan_memory`.
    """
    source, options = request.model, request.options
    plan = plan_memory(source, options, request.threads)
    if request.budget_bytes is not None:
        check_budget(source, options, plan, request.budget_bytes)
    least = request.budget_bytes or 0
    advice = suggestions(source, options, plan, least) if request.advise else []
    process = measure_phases(source, options, plan.threads) if request.process else None
    return MemoryAnswer(plan, process, tuple(advice), request.budget_bytes)
