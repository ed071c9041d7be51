"""Options of a command, with ONE's settings and the schedule that these may ask for."""

from __future__ import annotations

from pathlib import Path

from circlet.options import Options
from circlet.pareto.one_scheduler import scheduled
from circlet.placement.one_options import MEASURE
from circlet.runtime.arguments import thread_count
from circlet.runtime.one_options import unscheduled
from circlet.sample import Sample


def schedule(options: Options, scheduling: str, model: object, threads: object) -> Options:
    """Options that place the operators of a command's model as `scheduled` says.

    Args:
        scheduling: As `OneConfig.scheduling` has it.
        model: A path; None for the embedded sample.
        threads: A number; None for those of a run that names none.

    Raises:
        InputError: The command has no single model.
        CircletError: As `scheduled`.
    """
    if not isinstance(model, Path | None):
        raise unscheduled()
    count = thread_count(threads if isinstance(threads, int) else None)
    path = model or Sample().model_path
    return scheduled(path, options, count, measures=scheduling == MEASURE)
