"""Importers of the domain ai.onnx.ml, by families."""

from circlet.formats.onnx.importers.tabular import features, linear, trees  # noqa: F401
