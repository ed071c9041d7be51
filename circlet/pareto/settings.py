"""How configurations are measured, and a configuration as the options of a session."""

from __future__ import annotations

from circlet.options import DEFAULT_OPTIONS, Options
from circlet.placement.file import rules_of
from circlet.placement.problem import Configuration
from circlet.struct import Struct

MEMORY = ("process", "planned")


class EvaluationSettings(Struct):
    """How configurations are measured.

    Attributes:
        options: What all configurations have in common: backends, shapes, limits, target.
        rounds: How many times each configuration has its turn.
        seconds: How long each turn runs, in seconds; one run at the least.
        warmup: Runs that do not count.
        memory: "process" measures what a fresh process holds while it runs; "planned" adds up
            arenas, arrays between partitions and constants, which knows nothing of what engines
            take for themselves.
        reference: Backends whose outputs the others are compared with.
        tolerance: The largest difference of outputs, in parts of their range; None for what
            `circlet.comparison.outputs` allows for the network's class.
        timeout_s: How long one run may take, in seconds.
        opening_s: How long nothing may be heard of a configuration that is compiled, opened and
            compared with the reference, in seconds.
    """

    options: Options = DEFAULT_OPTIONS
    rounds: int = 11
    seconds: float = 0.02
    warmup: int = 2
    memory: str = "process"
    reference: tuple[str, ...] = ("reference",)
    tolerance: float | None = None
    timeout_s: float = 60.0
    opening_s: float = 600.0


DEFAULT_EVALUATION = EvaluationSettings()


def options_of(configuration: Configuration, base: Options) -> Options:
    """The options of a session that runs a configuration."""
    setting, rules = configuration.setting, rules_of(configuration.placement)
    return base._replace(backend_of=rules, level=setting.level, executor=setting.executor)
