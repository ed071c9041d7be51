"""Lowerings by families of operations; importing this package fills the table."""

from circlet.formats.nnapi.operations import (  # noqa: F401
    activations,
    arithmetic,
    conversions,
    convolution,
    elementary,
    images,
    indexing,
    movement,
    normalisation,
    pooling,
    products,
    recurrent,
    reductions,
    regions,
    transposed_convolution,
)
