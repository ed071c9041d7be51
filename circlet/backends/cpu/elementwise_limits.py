"""What the structs of `elementwise.h` and `fused_rows.h` have places for."""

from __future__ import annotations

MOST_OPERANDS = 12
MOST_FLOATS = 16
MOST_INTS = 32
