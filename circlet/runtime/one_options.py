"""Options with what ONE's settings ask for: those of the environment and of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from circlet.config import heeds_one, variables
from circlet.errors import InputError
from circlet.options import DEFAULT_BACKENDS, Options

if TYPE_CHECKING:
    from circlet.placement.one_options import OneConfig
    from circlet.stored import StrPath


def with_one_settings(
    options: Options,
    config: StrPath | Mapping[str, str] | None = None,
    schedule: Callable[[Options, str], Options] | None = None,
) -> Options:
    """Options as ONE's settings would have them, where a caller has not said otherwise.

    Args:
        config: A .cfg file, or its settings by name. Variables of the environment go before them.
        schedule: What places operators by their costs, as `OneConfig.scheduling` asks for it.

    Raises:
        FileError, InputError: As `read_one_config` and `one_config`, or operators are to be placed
            by their costs and there is no `schedule`.
    """
    heeds_environment = heeds_one()
    if config is None and not heeds_environment:
        return options
    from circlet.backends.registry import backend_names
    from circlet.placement.one_options import is_setting, one_config, read_one_config

    given = config if config is None or isinstance(config, Mapping) else read_one_config(config)
    settings = {**(given or {}), **(variables(is_setting) if heeds_environment else {})}
    asked = one_config(settings, backend_names(), strict=options.strict)
    merged = _merged(options, asked)
    if not asked.scheduling:
        return merged
    if schedule is None:
        raise unscheduled()
    return schedule(merged, asked.scheduling)


def unscheduled() -> InputError:
    """The error of settings that ask for a schedule where nothing makes one."""
    return InputError(
        "nothing here measures what operators cost",
        where="USE_SCHEDULER",
        fix="let circlet place -o FILE write the placement, or use circlet.pareto",
    )


def _merged(options: Options, asked: OneConfig) -> Options:
    is_chosen = options.backends != DEFAULT_BACKENDS or not asked.backends
    backends = options.backends if is_chosen else asked.backends
    rules = (*options.backend_of_source, *asked.rules)
    return options._replace(
        backends=backends,
        backend_of_source=rules,
        executor=options.executor or asked.executor or None,
    )
