"""A model and options to an artifact, in one straight line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from circlet.backends.base import Compiled, PartitionCompiler
from circlet.backends.faults import faults_of, names_of
from circlet.compiler.build import artifact_of
from circlet.compiler.planning import plan
from circlet.compiler.template import Source, Template
from circlet.garbage import gc_paused
from circlet.options import Options
from circlet.plan.partition import Partition


@dataclass(frozen=True)
class Compilation:
    """What compiling gave.

    Attributes:
        artifact: The bytes of the artifact.
        report: What backends tell of it besides, as plain data by backend.
    """

    artifact: bytes
    report: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@gc_paused()  # what is made of a network is kept: to look among it takes a third of the time
def compile_model(source: Source, options: Options) -> bytes:
    """The artifact of a model, of its file or of its bytes.

    Raises:
        FileError, FormatError: The source cannot be read.
        GraphError: A rule of the graph or of an operator is broken.
        UnsupportedOpsError: Ops that no backend takes, all in one report.
        PlacementError: `strict`, and an op did not go to the first backend.
        LimitError: A tensor or the arena is larger than allowed.
    """
    return compile_template(Template.read(source, options), options).artifact


@gc_paused()
def compile_template(template: Template, options: Options, key: str = "") -> Compilation:
    """The artifact of a model that is read and checked; raises as `compile_model`.

    `key` is the cache's name for it.
    """
    refused: dict[str, dict[int, str]] = {}
    while True:
        planned = plan(template, options, refused=refused)
        compiled = {
            compiler.name: _compiled(compiler, planned.partitions_of(compiler))
            for compiler in planned.compilers
        }
        if not any(own.refused for own in compiled.values()):
            break
        for name, own in compiled.items():
            refused.setdefault(name, {}).update(own.refused)
    report = {name: own.report for name, own in compiled.items()}
    made_of = {"model": template.digest, "key": key, "about": template.about}
    return Compilation(artifact_of(planned, compiled, made_of), report)


def _compiled(compiler: PartitionCompiler, parts: Sequence[Partition]) -> Compiled:
    with faults_of(compiler.name, "when it compiled", names_of(parts)):
        return compiler.compile(parts)
