"""The artifact of a network, with kernels as predicted, or measured where time is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circlet.compiler.build import artifact_of, backends_of, compile_native
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.options import OpenOptions, Source
from circlet.target.targets import parse_targets

if TYPE_CHECKING:
    from circlet.backends.cpu.tuning.search import Tuning


def compile_model(source: Source, options: OpenOptions) -> bytes:
    """The artifact of a model file or of its bytes.

    Raises:
        FileError, FormatError: The source cannot be read.
        GraphError: A rule of the graph or of an operator is broken.
        UnsupportedOpsError: Ops that no backend takes, all in one report.
        PlacementError: `strict`, and an op did not go to the first backend.
        LimitError: A tensor or the arena is larger than allowed.
    """
    return compile_template(Template.read(source, options), options)[0]


def compile_template(template: Template, options: OpenOptions) -> tuple[bytes, list[Tuning]]:
    """The artifact of a model that is read, and what tuning did; raises as `compile_model`."""
    if options.tune_seconds:
        from circlet.backends.cpu.tuning.tuned import compile_tuned

        return compile_tuned(template, options)
    targets = parse_targets(options.target)
    planned = plan(template.copy(), backends_of(targets, options), options)
    compiled = {
        target: [
            compile_native(part, target, options, template, planned) for part in planned.native
        ]
        for target in targets
    }
    return artifact_of(planned, compiled), []
