"""Configurations measured in a process of its own: one that crashes or hangs is a failure.

Measuring goes on without it. Which one it was is known from what the process last said it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from circlet.apart import Apart, LostError, Tell
from circlet.pareto.evaluate import check_settings, evaluate_together, failed
from circlet.pareto.settings import EvaluationSettings
from circlet.placement.problem import Configuration, Measurement


@dataclass(frozen=True)
class Measuring:
    """Measures as `circlet.pareto.evaluate` does, in a process that may be lost.

    Attributes:
        apart: The process, which serves all measurements until one ends it.
    """

    apart: Apart

    def __call__(
        self, model: bytes | Path, configuration: Configuration, settings: EvaluationSettings
    ) -> Measurement:
        """Measure a configuration; raises InputError as `evaluate`."""
        return self.together(model, [configuration], settings)[0]

    def together(
        self,
        model: bytes | Path,
        configurations: Sequence[Configuration],
        settings: EvaluationSettings,
    ) -> list[Measurement]:
        """Measure configurations side by side; again without those that end the process.

        Raises:
            InputError: The settings are not what they may be.
            BackendError: The process cannot be started.
        """
        check_settings(settings)
        found: dict[int, Measurement] = {}
        while len(found) < len(configurations):
            left = [n for n in range(len(configurations)) if n not in found]
            chosen = [configurations[n] for n in left]
            at_work: list[int] = []
            try:
                answers = self.apart.call(
                    _evaluated,
                    model,
                    chosen,
                    settings,
                    limit_s=settings.opening_s,
                    heard=at_work.append,
                )
                found.update(zip(left, answers, strict=True))
            except LostError as error:
                number = left[at_work[-1] if at_work else 0]
                names = ", ".join(configurations[number].backends)
                lost = error.coded("a configuration ended the process that measured it", names)
                found[number] = failed(lost)
        return [found[number] for number in range(len(configurations))]


def _evaluated(
    tell: Tell,
    model: bytes | Path,
    configurations: Sequence[Configuration],
    settings: EvaluationSettings,
) -> list[Measurement]:
    return evaluate_together(model, configurations, settings, tell)
