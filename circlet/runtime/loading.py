"""Loads the code of an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from circlet.artifact.file import Artifact, Blob, PartitionCode
from circlet.artifact.values import Value
from circlet.backends.registry import find_backend
from circlet.errors import ArtifactError, BackendError, CircletError
from circlet.garbage import gc_paused
from circlet.limits import Limits, MemoryBudget
from circlet.options import Failures
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
        failed: Backends that failed at it, and why; others took over.
    """

    partitions: list[LoadedPartition]
    values: list[Value]
    inputs: list[int]
    outputs: list[int]
    metadata: dict[str, Any]
    seconds: dict[str, float]
    target: str = ""
    template: Template | None = None
    failed: Failures = ()

    @property
    def model(self) -> str:
        """The hash of the bytes of the model, "" where it was never a file."""
        return str(self.metadata.get("model", ""))

    @property
    def placement(self) -> list[dict[str, object]]:
        """The placement table as records."""
        keys = ("kind", "source", "backend", "refused")
        return [dict(zip(keys, row, strict=True)) for row in self.metadata["placement"]]


@gc_paused()
def load_code(artifact: Artifact, limits: Limits) -> Opened:
    """The plan of an artifact for this machine, its code loaded.

    Raises:
        ArtifactError: It is damaged.
        LimitError: Its arrays and arenas take more memory than allowed.
        BackendError: A backend fails to load what is not damaged.
    """
    code = artifact.select()
    facts = artifact.metadata
    try:
        check_description(facts)
        values = [Value.from_json(fields) for fields in facts["values"]]
        budget = limits.memory_budget(facts.get("file_bytes", 0))
        _charge_run(values, facts, budget)
        parts = list(zip(code.partitions, facts["partitions"], strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            "an artifact is damaged or is none", where=artifact.name, why=f"metadata: {error!r}"
        ) from error
    rest = limits.with_memory(budget.left)
    codes = [
        _loaded(part, code.shared.get(part.backend, b""), rest, entry) for part, entry in parts
    ]
    return opened_plan(facts, codes, values)._replace(target=code.target)


def _loaded(part: PartitionCode, shared: Blob, limits: Limits, entry: dict[str, Any]) -> Executable:
    """The code of a partition, ready to be bound; a backend says of damaged code what it is."""
    try:
        return find_backend(part.backend).load(part, shared, limits)
    except CircletError as error:
        is_engines = isinstance(error, BackendError)
        error.backend = error.backend or (part.backend if is_engines else "")
        raise
    except MemoryError:
        raise
    except Exception as error:
        ops = [str(name) for _, name in entry["ops"]]
        raise BackendError.failed(part.backend, "when it was loaded", ops, error) from error


def _charge_run(values: Sequence[Value], facts: dict[str, Any], budget: MemoryBudget) -> None:
    """Charge the arrays and arenas of a plan that its metadata describes."""
    for value in values:
        if not value.is_dynamic:
            budget.charge(value.bytes, value.name, "its array")
    for part in facts["partitions"]:
        budget.charge(int(part.get("arena_bytes", 0)), part["backend"], "its working memory")
        budget.charge(int(part.get("once_bytes", 0)), part["backend"], "what it computes once")


def opened_plan(
    facts: dict[str, Any], codes: Sequence[Executable], values: list[Value] | None = None
) -> Opened:
    """A plan of loaded partitions, as its metadata describes it; its values may be read already."""
    if values is None:
        values = [Value.from_json(fields) for fields in facts["values"]]
    dynamic = {index for index, value in enumerate(values) if value.is_dynamic}
    partitions = [
        LoadedPartition(
            code,
            tuple(entry["inputs"]),
            tuple(entry["outputs"]),
            tuple(value for value in entry["outputs"] if value in dynamic),
            tuple(values[value] for value in entry["outputs"]),
            entry,
        )
        for entry, code in zip(facts["partitions"], codes, strict=True)
    ]
    return Opened(partitions, values, facts["inputs"], facts["outputs"], facts, {})
