"""Writers of operators by families; importing this package fills the table."""

from circlet.formats.onnx.writers import (  # noqa: F401
    control,
    convolution,
    elementwise,
    indexing,
    layout,
    nodes,
    normalisation,
    pooling,
    products,
    quantisation,
    reductions,
    resizing,
    slicing,
    spectra,
)
