"""The rank of a tensor where an importer cannot do without it."""

from __future__ import annotations

from circlet.errors import FormatError
from circlet.ir import Tensor


class UnknownRankError(FormatError):
    """A file leaves the number of dimensions of a tensor open, and an importer asks for it."""


def rank_of(tensor: Tensor) -> int:
    """The number of dimensions; UnknownRankError where the file leaves it open."""
    if not tensor.has_rank:
        raise UnknownRankError(
            "the number of dimensions of a tensor is not known",
            where=tensor.name,
            fix="export the model with shapes, or run onnx.shape_inference over it",
        )
    return len(tensor.shape)
