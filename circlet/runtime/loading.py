"""Loads the code of an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.artifact.file import Artifact, PartitionCode
from circlet.artifact.values import Value
from circlet.backends.cpu.loader import Binding, Executable, Runtime, load_runtime
from circlet.errors import ArtifactError
from circlet.limits import Limits
from circlet.runtime.executor import LoadedPartition
from circlet.struct import Struct

if TYPE_CHECKING:
    from circlet.backends.base import BoundPartition, Runner
    from circlet.compiler.template import Template


class Opened(Struct):
    """A loaded plan.

    Attributes:
        partitions: Loaded code, in order.
        values: What crosses partitions; `inputs` and `outputs` are positions in it.
        metadata: The artifact's metadata.
        seconds: How long "load" took, and "compile" or "cache" where the source was a model, or
            "resize".
        target: What the loaded code is for.
        key: The cache's name of the artifact, "" where the cache was not asked.
        template: The model, where it was read to compile it.
    """

    partitions: list[LoadedPartition]
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    metadata: dict[str, Any]
    seconds: dict[str, float]
    target: str = ""
    key: str = ""
    template: Template | None = None

    @property
    def is_native(self) -> bool:
        """Whether any of it is compiled code."""
        return any(isinstance(part.code, NativePartition) for part in self.partitions)

    @property
    def placement(self) -> list[dict[str, object]]:
        """The placement table as records."""
        keys = ("kind", "source", "backend", "refused")
        return [dict(zip(keys, row, strict=True)) for row in self.metadata["placement"]]


def load_artifact(artifact: Artifact, limits: Limits) -> Opened:
    """The plan of an artifact for this machine, its code loaded."""
    code = artifact.select()
    facts = artifact.metadata
    try:
        runtime = load_runtime(code.runtime) if len(code.runtime) else None
        pairs = zip(facts["partitions"], code.partitions, strict=True)
        opened = opened_plan(facts, [load_code(*pair, runtime, limits) for pair in pairs])
        return opened._replace(target=str(code.target))
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            "an artifact is damaged or is none", where=artifact.name, why=f"metadata: {error!r}"
        ) from error


def opened_plan(facts: dict[str, Any], codes: Sequence[BoundPartition]) -> Opened:
    """A plan of loaded partitions, as its metadata describes it."""
    values = [Value.from_json(fields) for fields in facts["values"]]
    dynamic = {index for index, value in enumerate(values) if value.is_dynamic}
    partitions = [
        LoadedPartition(
            code,
            tuple(entry["inputs"]),
            tuple(entry["outputs"]),
            tuple(value for value in entry["outputs"] if value in dynamic),
        )
        for entry, code in zip(facts["partitions"], codes, strict=True)
    ]
    return Opened(partitions, values, facts["inputs"], facts["outputs"], facts, {})


def load_code(
    entry: dict[str, Any], part: PartitionCode, runtime: Runtime | None, limits: Limits
) -> BoundPartition:
    """What runs a partition of the plan's metadata."""
    if entry["backend"] == "cpu" and runtime is not None:
        executable = Executable(runtime, part.plan, part.constants, part.units)
        return NativePartition(executable, part.reuse)
    from circlet.backends.reference.partition import ReferencePartition

    return ReferencePartition(part.constants, limits)


class NativePartition(Struct):
    """Compiled code that can be bound to buffers, and what of it serves other sizes."""

    executable: Executable
    reuse: bytes | memoryview = b""

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """Give the plan an arena and these buffers."""
        return Binding(self.executable, inputs, outputs, threads)
