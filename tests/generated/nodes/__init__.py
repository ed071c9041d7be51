"""Cases of ONNX nodes that are generated from the standard's own schemas."""
