"""Options with what ONE's settings ask for: those of the environment and of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from circlet.config import one_settings
from circlet.options import DEFAULT_BACKENDS, Options

if TYPE_CHECKING:
    from circlet.placement.one_options import OneConfig
    from circlet.stored import StrPath


def with_one_settings(
    options: Options, config: StrPath | Mapping[str, str] | None = None
) -> Options:
    """Options as ONE's settings would have them, where a caller has not said otherwise.

    Args:
        config: A .cfg file, or its settings by name. Variables of the environment go before them.

    Raises:
        FileError, InputError: As `read_one_config` and `one_config`.
    """
    from_environment = one_settings()
    if config is None and not from_environment:
        return options
    from circlet.backends.registry import backend_names
    from circlet.placement.one_options import one_config, read_one_config

    given = config if config is None or isinstance(config, Mapping) else read_one_config(config)
    settings = {**(given or {}), **from_environment}
    return _merged(options, one_config(settings, backend_names(), strict=options.strict))


def _merged(options: Options, asked: OneConfig) -> Options:
    is_chosen = options.backends != DEFAULT_BACKENDS or not asked.backends
    backends = options.backends if is_chosen else asked.backends
    rules = (*options.backend_of_source, *asked.rules)
    return options._replace(
        backends=backends,
        backend_of_source=rules,
        executor=options.executor or asked.executor or None,
        scheduling=asked.scheduling,
    )
