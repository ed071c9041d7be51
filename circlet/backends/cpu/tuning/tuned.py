"""Compiles networks whose kernels are chosen by measuring them."""

from __future__ import annotations

from circlet.backends.cpu.tuning.candidates import CandidateBuilder, Images
from circlet.backends.cpu.tuning.search import Tuning, check_measurable, tune
from circlet.backends.cpu.tuning.timer import Timer
from circlet.compiler.build import artifact_of, backends_of
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.options import OpenOptions
from circlet.target.targets import parse_targets


def compile_tuned(
    template: Template, options: OpenOptions, timer: Timer | None = None
) -> tuple[bytes, list[Tuning]]:
    """The artifact of a model, tuned for each target in turn, and what tuning did.

    Raises:
        TargetError: This machine cannot run code for one of the targets.
        CircletError: As `compile_model`.
    """
    targets = parse_targets(options.target)
    check_measurable(targets)
    planned = plan(template.copy(), backends_of(targets, options), options)
    images = Images()
    tuned = {
        target: tune(
            CandidateBuilder(planned, target, template, options, images),
            target,
            options.tune_seconds,
            timer,
        )
        for target in targets
    }
    compiled = {target: parts for target, (parts, _) in tuned.items()}
    records = [record for _, record in tuned.values()]
    facts = {"tuning": [record.summary for record in records]}
    return artifact_of(planned, compiled, facts, images.built), records
