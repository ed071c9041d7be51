"""ONNX files: a reader whose table of importers lowers each operator to records."""
