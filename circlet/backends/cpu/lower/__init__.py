"""The rows of the lowering table, one module per family; importing this fills the table."""

from circlet.backends.cpu.lower import lut, elementwise, pool, quantize, reduce, resize, shape, softmax  # noqa: F401, I001  (rows of a kind in order of preference)
from circlet.backends.cpu.lower import conv_q8, depthwise_q8, fully_connected_q8, hybrid_q8  # noqa: F401
from circlet.backends.cpu.lower import (
    conv_float,
    depthwise_float,
    fully_connected_float,
    transpose_conv,
)  # noqa: F401
