"""What an artifact holds, read without loading its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from circlet.artifact.file import Artifact, open_artifact
from circlet.artifact.values import Value
from circlet.errors import ArtifactError

_MOST_NESTED = 32


@dataclass(frozen=True)
class PartRow:
    """One partition: its backend, operators and kernel calls, and its working memory."""

    backend: str
    ops: int
    steps: int
    arena_bytes: int


@dataclass(frozen=True)
class ValueRow:
    """An input or an output; -1 stands for a size that depends on the data of a run."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ArtifactInspection:
    """What an artifact was made of and for.

    Attributes:
        circlet: The version that made it.
        digest: What stands for all of its bytes, and what `run --digest` takes.
        model: The BLAKE2b hash (32 bytes) of the model's bytes; "" where there was no file.
        options: What it was compiled with.
        targets: What it holds code for.
        inputs, outputs: What a run takes and gives, in order.
        tuning: For each target that was tuned what was found out, and the settings.
    """

    artifact: str
    circlet: str
    digest: str
    model: str
    options: dict[str, Any]
    description: str
    size_bytes: int
    level: str
    precision: str
    targets: tuple[str, ...]
    inputs: tuple[ValueRow, ...]
    outputs: tuple[ValueRow, ...]
    partitions: tuple[PartRow, ...]
    tuning: tuple[dict[str, Any], ...]


def inspect_artifact(path: Path) -> ArtifactInspection:
    """Inspect an artifact file.

    Raises:
        ArtifactError: It is damaged, or of another version.
    """
    artifact = open_artifact(path)
    try:
        return _inspected(artifact, path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ArtifactError(
            "an artifact is damaged or is none", where=str(path), why=f"metadata: {error!r}"
        ) from error


def _inspected(artifact: Artifact, path: Path) -> ArtifactInspection:
    facts = artifact.metadata
    _check_nesting(facts)
    return ArtifactInspection(
        artifact=str(path),
        circlet=str(facts["circlet"]),
        digest=artifact.digest,
        model=str(facts.get("model", "")),
        options=dict(facts.get("options", {})),
        description=str(facts.get("description", "")),
        size_bytes=path.stat().st_size,
        level=str(facts.get("level", "O2")),
        precision=str(facts.get("precision", "f32")),
        targets=tuple(artifact.target_names),
        inputs=tuple(_values(facts, "inputs")),
        outputs=tuple(_values(facts, "outputs")),
        partitions=tuple(
            PartRow(
                str(part["backend"]),
                len(part["ops"]),
                len(part.get("steps", ())),
                int(part.get("arena_bytes", 0)),
            )
            for part in facts["partitions"]
        ),
        tuning=tuple(dict(record) for record in facts.get("tuning", ())),
    )


def _check_nesting(facts: Mapping[str, Any]) -> None:
    """What is shown is copied and written by recursion, which must not depend on the file."""
    level: list[Any] = [facts]
    for _ in range(_MOST_NESTED):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [child for values in inner for child in values if isinstance(child, (dict, list))]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _values(facts: Mapping[str, Any], role: str) -> Iterator[ValueRow]:
    for number in facts[role]:
        value = Value.from_json(facts["values"][number])
        yield ValueRow(value.name, value.dtype, value.shape)
