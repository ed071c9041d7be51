"""Families of operators as kernels; importing them fills the table of lowerings."""

from circlet.backends.opencl.lower import (  # noqa: F401
    convolution,
    matrices,
    movement,
    pooling,
    reduction,
    resizing,
    softmax,
)
