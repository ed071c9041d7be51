"""Records of the domain `onnx`, by families."""

from circlet.ops.onnx import (  # noqa: F401  (families register when they are imported)
    casts,
    elementwise,
    movement,
    products,
    quantisation,
    recurrent,
    reductions,
    resize,
    signal,
    windows,
)
