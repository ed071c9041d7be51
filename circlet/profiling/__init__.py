"""Where time and memory of a network go, told of the operators in the user's file."""

from __future__ import annotations

from circlet.profiling.profiler import profile
from circlet.profiling.result import CallRow, OperatorRow, Profile

__all__ = ["CallRow", "OperatorRow", "Profile", "profile"]
