"""Kinds that no recipe reaches, and why; `test_generated.py` asserts that the list is complete."""

from __future__ import annotations

_REGIONS = "runs graphs of its own: tests/backends/cpu/test_control.py, tests/plan/test_shapes.py"
_STATE = "updates variables from run to run: "

UNREACHED = {
    "ASSIGN_VARIABLE": f"{_STATE}tests/passes/test_resolve_variables.py",
    "IF": _REGIONS,
    "LSTM": f"{_STATE}tests/ops/test_recurrent.py, tests/backends/cpu/test_recurrent.py",
    "READ_VARIABLE": f"{_STATE}tests/passes/test_resolve_variables.py",
    "STABLEHLO_COMPOSITE": _REGIONS,
    "SVDF": f"{_STATE}tests/ops/test_svdf_by_hand.py, tests/backends/cpu/test_recurrent.py",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"{_STATE}tests/ops/test_recurrent.py",
    "WHILE": _REGIONS,
}
