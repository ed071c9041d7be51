"""A network of any batch becomes one of a certain batch."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Graph, Tensor
from circlet.ops import find, get
from circlet.passes.contract import BOUND, Contract


@dataclass(frozen=True)
class SetBatch:
    """Give the first dimension of inputs a size where it is open, and infer all other sizes anew.

    Before: `x[?, 8] -> FULLY_CONNECTED -> y[?, 4]`. After, with size 1: `x[1, 8] -> y[1, 4]`.
    For runtimes that take fixed sizes alone. Changes what callers may give.

    Attributes:
        size: The size.
    """

    name = "set-batch"
    contract = Contract(
        interface=True, grows=dict.fromkeys(BOUND, "sizes that are open count as few")
    )
    size: int = 1

    def run(self, graph: Graph) -> bool:
        """Set sizes from the inputs onwards.

        Raises:
            GraphError: The network cannot have that size.
        """
        open_inputs = [tensor for tensor in graph.inputs if tensor.shape[:1] == (None,)]
        for tensor in open_inputs:
            _set(tensor, (self.size, *tensor.shape[1:]))
        for op in graph.ops if open_inputs else ():
            if find(op.label) is None or op.regions:
                continue
            for result, inferred in zip(op.outputs, get(op).infer(op), strict=True):
                if inferred.has_rank and (None in result.shape or not result.has_rank):
                    result.has_rank = True
                    _set(result, inferred.shape)
        return bool(open_inputs)


def _set(tensor: Tensor, shape: tuple[int | None, ...]) -> None:
    """Give a tensor sizes; of those that stay open, what the file says they are by default."""
    known = tensor.default_shape or ()
    tensor.shape, tensor.default_shape = shape, None
    if None in shape and len(known) == len(shape):
        pairs = zip(shape, known, strict=True)
        tensor.default_shape = tuple(k if size is None else size for size, k in pairs)
    elif None not in shape:
        tensor.dim_names = ()
