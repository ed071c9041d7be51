"""What `circlet resize` does, as a function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from circlet.commands.storing import store
from circlet.formats import load
from circlet.formats.paths import check_apart
from circlet.formats.registry import written_format
from circlet.ir import Shape
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.options import Shapes
from circlet.plan.resize import resize


@dataclass(frozen=True)
class ResizeRequest:
    """What `circlet resize` is asked for: the sizes of inputs, by name."""

    model: Path
    output: Path
    shapes: Shapes
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class SizeRow:
    """An input or output, and its sizes before and after."""

    role: str
    name: str
    before: Shape
    after: Shape


@dataclass(frozen=True)
class ResizeReport:
    """What was written: inputs and outputs, and how many tensors have other sizes."""

    output: str
    format: str
    size_bytes: int
    changed: int
    ends: tuple[SizeRow, ...]


def resize_model(request: ResizeRequest) -> ResizeReport:
    """Write a network whose inputs have other sizes, or nothing.

    Raises:
        InputError, GraphError, LimitError: As `circlet.plan.resize.resize`.
        CircletError: As `load` and `save`.
    """
    chosen = written_format(request.output)
    check_apart(request.output, [request.model])
    model = load(request.model, request.limits)
    ends = [("input", tensor) for tensor in model.main.inputs]
    ends += [("output", tensor) for tensor in model.main.outputs]
    before = [tensor.shape for _, tensor in ends]
    changed = resize(model, dict(request.shapes), request.limits)
    store(model, request.output, chosen.name)
    return ResizeReport(
        str(request.output),
        chosen.name,
        request.output.stat().st_size,
        len(changed),
        tuple(
            SizeRow(role, tensor.name, shape, tensor.shape)
            for (role, tensor), shape in zip(ends, before, strict=True)
        ),
    )
