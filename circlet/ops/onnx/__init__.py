"""Records of the domain `onnx`, by families."""

from circlet.ops.onnx import (  # noqa: F401  (families register when they are imported)
    attention,
    casts,
    elementwise,
    grouped_attention,
    images,
    microsoft,
    movement,
    nbits,
    products,
    quantisation,
    recurrent,
    reductions,
    regions,
    resize,
    scatters,
    signal,
    stacks,
    windows,
)
