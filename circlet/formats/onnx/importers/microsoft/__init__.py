"""Importers of the domain com.microsoft, by families."""

from circlet.formats.onnx.importers.microsoft import (  # noqa: F401
    activations,
    attention,
    blocks,
    decoding,
    normalisation,
    others,
    products,
    quantised,
)
