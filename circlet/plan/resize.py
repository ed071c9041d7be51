"""A network with other sizes of its inputs, to be stored as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.errors import InputError
from circlet.ir import Model, Tensor
from circlet.ir.copy import copy_of
from circlet.limits import Limits
from circlet.ops.verify import verify
from circlet.passes.fold_constants import FoldLedger
from circlet.plan.shapes import fix_shapes


def resize(model: Model, shapes: Mapping[str, Sequence[int]], limits: Limits) -> list[Tensor]:
    """Give inputs of the main graph, by name, other sizes, and all tensors those that follow.

    The operators stay as they are; what a file holds of sizes in constants, such as the target of
    a reshape, must go with the new ones.

    Returns:
        The tensors whose sizes changed.

    Raises:
        InputError: There is no input of a name, or it has another number of dimensions.
        GraphError: The network does not work for these sizes.
        LimitError: A tensor would be larger than allowed.
    """
    twin = copy_of(model)
    pairs = _pairs(model, twin)
    before = {tensor: tensor.shape for tensor, _ in pairs}
    for op in (op for graph in twin.graphs for op in graph.ops):
        for tensor in op.outputs:
            tensor.default_shape = tensor.static_shape
            tensor.shape = (None,) * len(tensor.shape)
    _set_inputs(twin, shapes)
    ledger = FoldLedger(limits.memory_budget(model.source_bytes))
    fix_shapes(twin.main, limits, ledger=ledger)
    for tensor, sized in pairs:
        if tensor.is_constant:
            continue
        tensor.shape, tensor.has_rank = sized.shape, sized.has_rank
        tensor.default_shape = sized.default_shape
    verify(model.main)
    return [tensor for tensor, shape in before.items() if tensor.shape != shape]


def _pairs(model: Model, twin: Model) -> list[tuple[Tensor, Tensor]]:
    """The tensors of a model that are listed or used, each with its copy."""
    found: dict[Tensor, Tensor] = {}
    for graph, copy in zip(model.graphs, twin.graphs, strict=True):
        found.update(zip(graph.tensors, copy.tensors, strict=True))
        found.update(zip(graph.used_tensors(), copy.used_tensors(), strict=True))
    return list(found.items())


def _set_inputs(model: Model, shapes: Mapping[str, Sequence[int]]) -> None:
    inputs = {tensor.name: tensor for tensor in model.main.inputs}
    for name, shape in shapes.items():
        tensor = inputs.get(name)
        if tensor is None:
            fix = f"the names are {', '.join(map(repr, inputs))}"
            raise InputError("there is no input of that name", where=name, fix=fix)
        if tensor.has_rank and len(shape) != len(tensor.shape):
            raise InputError(
                "an input keeps its number of dimensions",
                where=name,
                why=f"{list(shape)} were given, the file has {list(tensor.static_shape)}",
            )
        tensor.shape, tensor.default_shape, tensor.has_rank = tuple(shape), None, True
