"""Records of the domain `onnx`, by families."""

from circlet.ops.onnx import (  # noqa: F401  (families register when they are imported)
    attention,
    casts,
    elementwise,
    images,
    microsoft,
    movement,
    products,
    quantisation,
    recurrent,
    reductions,
    regions,
    resize,
    signal,
    stacks,
    windows,
)
