"""What workers carry out: say what they are, list what a search may choose, measure."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.fleet.machine import Machine, this_machine
from circlet.fleet.models import model_on_worker
from circlet.fleet.space import Space, space_of
from circlet.options import Options
from circlet.pareto.evaluate import evaluate
from circlet.pareto.settings import EvaluationSettings
from circlet.placement.problem import Configuration, Measurement
from circlet.struct import Struct


class Answer(Struct):
    """A measurement, and the machine that it is from."""

    measurement: Measurement
    machine: Machine


def list_choices(
    key: str, options: Options, threads: Sequence[int], levels: Sequence[str]
) -> Space:
    """What may be chosen on this worker for the network of a hash."""
    return space_of(model_on_worker(key), options, threads, levels)


def measure(key: str, configuration: Configuration, settings: EvaluationSettings) -> Answer:
    """Measure a configuration of the network of a hash on this worker."""
    return Answer(evaluate(model_on_worker(key), configuration, settings), this_machine())
