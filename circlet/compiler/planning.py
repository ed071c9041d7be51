"""From a checked model to partitions: sizes, passes, placement."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from circlet.artifact.values import unique_names
from circlet.backends.cpu.passes import IN_PLACE, native_pipeline
from circlet.errors import InputError
from circlet.ir import Graph, Model, Origin, Tensor
from circlet.ir.regions import reachable
from circlet.ops.shape import copy_op
from circlet.passes import Rewriter, pipeline
from circlet.placement.interface import Backend
from circlet.placement.rule import Placed, place
from circlet.plan.partition import Partition, partition
from circlet.plan.shapes import fix_shapes

if TYPE_CHECKING:
    from circlet.options import OpenOptions, Shapes

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlannedModel:
    """A model after its passes, with the place of every op.

    `open_sizes` are the dimensions of the inputs that the file leaves open; `level` and `precision`
    are those of the options.
    """

    model: Model
    placed: list[Placed]
    partitions: list[Partition]
    open_sizes: dict[Tensor, tuple[int, ...]]
    backends: Sequence[Backend]
    level: str
    precision: str

    @property
    def native(self) -> list[Partition]:
        """The partitions that are compiled to native code."""
        return [part for part in self.partitions if is_native(part)]


def plan(
    model: Model, backends: Sequence[Backend], options: OpenOptions, *, resized: bool = False
) -> PlannedModel:
    """Optimise, place and partition a checked model, in place.

    `resized` says that the same model was planned before, for other sizes.

    Raises:
        GraphError: A rule of an operator is broken, or the network does not work for the sizes.
        UnsupportedOpsError: Ops that no backend takes, all in one report.
        PlacementError: `strict`, and an op did not go to the first backend.
        LimitError: A tensor is larger than allowed.
    """
    graph = model.main
    graph.inputs[:] = [tensor for tensor in graph.inputs if not tensor.is_constant]
    open_sizes = {t: tuple(i for i, s in enumerate(t.shape) if s is None) for t in graph.inputs}
    _set_input_shapes(graph, options.shapes)
    fix_shapes(graph, options.limits, resized=resized)
    log = pipeline(options.level).run(model)
    LOGGER.info("passes applied: %s", ", ".join(dict.fromkeys(log.applied)))
    _copy_outputs(graph)
    placed = place(graph, backends, strict=options.strict)
    partitions = partition(graph, {row.op: row.backend for row in placed})
    partitions = [_fused(part, options.level, resized) for part in partitions]
    chosen = options.level, options.precision
    return PlannedModel(model, placed, partitions, open_sizes, backends, *chosen)


def _forget_computed_sizes(graph: Graph) -> None:
    for op in (op for part in reachable(graph) for op in part.ops):
        for tensor in op.outputs:
            tensor.default_shape = tensor.static_shape
            tensor.shape = (None,) * len(tensor.shape)


def _set_input_shapes(graph: Graph, shapes: Shapes) -> None:
    """Give inputs, by name, other sizes than the file's; computed tensors follow from them."""
    if shapes:
        _forget_computed_sizes(graph)
    inputs = dict(zip(unique_names(graph.inputs), graph.inputs, strict=True))
    for name, shape in shapes:
        if name not in inputs:
            raise InputError(
                "there is no input of that name", where=name, fix=f"the names are {list(inputs)}"
            )
        tensor = inputs[name]
        if tensor.has_rank and len(shape) != len(tensor.shape):
            raise InputError(
                "an input keeps its number of dimensions",
                where=name,
                why=f"{list(shape)} were given, the file has {list(tensor.static_shape)}",
            )
        tensor.shape, tensor.default_shape = shape, None


def is_native(part: Partition) -> bool:
    """Whether a partition is compiled to native code."""
    return part.backend == "cpu"


def _fused(part: Partition, level: str, resized: bool) -> Partition:
    """A native partition after the level's passes over such; others as they are."""
    if not is_native(part):
        return part
    graph, check = part.graph(), LOGGER.isEnabledFor(logging.DEBUG)
    native_pipeline(level, resized=resized, check=check).run(graph)
    return replace(part, ops=tuple(graph.ops), in_place=level in IN_PLACE)


def _copy_outputs(graph: Graph) -> None:
    """Have each output made by an operator of its own; inputs, constants and repeats are copied."""
    rewriter, made = Rewriter(graph), set(graph.producers())
    for position, tensor in enumerate(graph.outputs):
        if tensor in made:
            made.remove(tensor)
            continue
        producer, number = rewriter.producer(tensor), len(graph.ops) + position
        origin = producer.origin if producer else Origin.of(number, tensor.name)
        copy = tensor.like()
        rewriter.append(copy_op(tensor, copy, origin))
        graph.outputs[position] = copy
    rewriter.finish()
