"""What the kernels of `elementwise.h` and `fused_rows.h` take."""

from __future__ import annotations

# Places in the structs of parameters.
MOST_OPERANDS = 12
MOST_FLOATS = 16
MOST_INTS = 32
# How a row of floats is reduced.
ROW_REDUCTIONS = {
    "MEAN": "REDUCE_SUM",
    "SUM": "REDUCE_SUM",
    "REDUCE_MAX": "REDUCE_MAX",
    "REDUCE_MIN": "REDUCE_MIN",
}
