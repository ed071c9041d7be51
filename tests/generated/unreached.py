"""Kinds that no recipe reaches, and why; `test_generated.py` asserts that the list is complete."""

from __future__ import annotations

_REGIONS = "runs graphs of its own: tests/backends/cpu/test_control.py, tests/plan/test_shapes.py"
_STATE = "updates variables from run to run: "
_BOUND = "operands are bound to each other in many ways: tests/onnx_nodes.py runs ONNX's own cases"
_FEW = "numbers alone decide the result, in few forms: tests/onnx_nodes.py runs ONNX's own cases"
_OLD = "the newest operator set has it no more: tests/onnx_nodes.py runs ONNX's own cases"

_BOUND_KINDS = """AffineGrid Attention CenterCropPad Col2Im DeformConv GRU GridSample LSTM
LinearAttention MaxRoiPool MaxUnpool NonMaxSuppression QLinearConv RNN RoiAlign TensorScatter"""
_FEW_KINDS = "BitCast BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT"

UNREACHED = {
    "ASSIGN_VARIABLE": f"{_STATE}tests/passes/test_resolve_variables.py",
    "IF": _REGIONS,
    "LSTM": f"{_STATE}tests/ops/test_recurrent.py, tests/backends/cpu/test_recurrent.py",
    "READ_VARIABLE": f"{_STATE}tests/passes/test_resolve_variables.py",
    "STABLEHLO_COMPOSITE": _REGIONS,
    "SVDF": f"{_STATE}tests/ops/test_svdf_by_hand.py, tests/backends/cpu/test_recurrent.py",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"{_STATE}tests/ops/test_recurrent.py",
    "WHILE": _REGIONS,
    **{f"CUSTOM:onnx.{name}": _BOUND for name in _BOUND_KINDS.split()},
    **{f"CUSTOM:onnx.{name}": _FEW for name in _FEW_KINDS.split()},
    **{f"CUSTOM:onnx.{name}": _OLD for name in ("Scatter", "Upsample")},
    "CUSTOM:onnx.Append": "its operand is a sequence: tests/onnx_nodes.py runs ONNX's own cases",
    "CUSTOM:onnx.ImageDecoder": "its operand is an encoded picture: tests/onnx_nodes.py",
}
