"""Options of a command with a schedule in place of the wish for one."""

from __future__ import annotations

from pathlib import Path

from circlet.options import Options, unscheduled
from circlet.pareto.one_scheduler import scheduled
from circlet.runtime.arguments import thread_count
from circlet.sample import Sample


def schedule(options: Options, model: object, threads: object) -> Options:
    """Options that place the operators of a command's model as `scheduled` says.

    Args:
        model: A path; None for the embedded sample.
        threads: A number; None for those of a run that names none.

    Raises:
        InputError: The command has no single model.
        CircletError: As `scheduled`.
    """
    if not isinstance(model, Path | None):
        raise unscheduled()
    count = thread_count(threads if isinstance(threads, int) else None)
    return scheduled(model or Sample().model_path, options, count)
