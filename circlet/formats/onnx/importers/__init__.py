"""Importers by families of operators; importing this package fills the table."""

from circlet.formats.onnx.importers import (  # noqa: F401
    activations,
    arithmetic,
    constants,
    control,
    experimental,
    indexing,
    loops,
    matrix,
    microsoft,
    normalisation,
    quantisation,
    recurrent,
    reductions,
    resizing,
    sequences,
    shapes,
    tabular,
    windows,
)
