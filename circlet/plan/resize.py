"""A network with other sizes of its inputs, to be stored as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.ir import Model, Tensor
from circlet.ir.copy import copy_of
from circlet.limits import Limits
from circlet.ops.verify import verify
from circlet.passes.fold_constants import FoldLedger
from circlet.plan.input_shapes import forget_computed_sizes, set_input_shapes
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
    forget_computed_sizes(twin.graphs)
    inputs = {tensor.name: tensor for tensor in twin.main.inputs}
    set_input_shapes(inputs, shapes.items())
    for name in shapes:
        inputs[name].has_rank = True
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
