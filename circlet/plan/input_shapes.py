"""Other sizes of a network's inputs, from which those of all computed tensors follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from circlet.errors import InputError
from circlet.ir import Graph, Tensor


def forget_computed_sizes(graphs: Iterable[Graph]) -> None:
    """Leave the sizes of all that operators compute open; what they were is the default."""
    for op in (op for graph in graphs for op in graph.ops):
        for tensor in op.outputs:
            tensor.default_shape = tensor.static_shape
            tensor.shape = (None,) * len(tensor.shape)


def set_input_shapes(
    inputs: Mapping[str, Tensor], shapes: Iterable[tuple[str, Sequence[int]]]
) -> None:
    """Give inputs, by name, other sizes.

    Raises:
        InputError: There is no input of a name, or it has another number of dimensions.
    """
    for name, shape in shapes:
        if name not in inputs:
            fix = f"the names are {list(inputs)}"
            raise InputError("there is no input of that name", where=name, fix=fix)
        tensor = inputs[name]
        if tensor.has_rank and len(shape) != len(tensor.shape):
            raise InputError(
                "an input keeps its number of dimensions",
                where=name,
                why=f"{list(shape)} were given, the file has {list(tensor.static_shape)}",
            )
        tensor.shape, tensor.default_shape = tuple(shape), None
