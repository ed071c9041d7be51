"""ONNX Runtime's Python interface, with Circlet behind it."""
