"""Loads the code of an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from circlet.artifact.file import Artifact
from circlet.artifact.values import Value
from circlet.backends.registry import find_backend
from circlet.errors import ArtifactError
from circlet.limits import Limits
from circlet.runtime.description import check_description
from circlet.runtime.executor import LoadedPartition
from circlet.struct import Struct

if TYPE_CHECKING:
    from circlet.backends.base import Executable
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
        template: The model, where it was read to compile it.
    """

    partitions: list[LoadedPartition]
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    metadata: dict[str, Any]
    seconds: dict[str, float]
    target: str = ""
    template: Template | None = None

    @property
    def model(self) -> str:
        """The hash of the bytes of the model, "" where it was never a file."""
        return str(self.metadata.get("model", ""))

    @property
    def placement(self) -> list[dict[str, object]]:
        """The placement table as records."""
        keys = ("kind", "source", "backend", "refused")
        return [dict(zip(keys, row, strict=True)) for row in self.metadata["placement"]]


def load_code(artifact: Artifact, limits: Limits) -> Opened:
    """The plan of an artifact for this machine, its code loaded."""
    code = artifact.select()
    facts = artifact.metadata
    try:
        check_description(facts)
        codes = [
            find_backend(part.backend).load(part, code.shared.get(part.backend, b""), limits)
            for part in code.partitions
        ]
        return opened_plan(facts, codes)._replace(target=code.target)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            "an artifact is damaged or is none", where=artifact.name, why=f"metadata: {error!r}"
        ) from error


def opened_plan(facts: dict[str, Any], codes: Sequence[Executable]) -> Opened:
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
