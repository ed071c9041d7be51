"""The rows of the lowering table, one module per family; importing this fills the table."""

from importlib import import_module

# Rows of one kind are asked in this order.
FAMILIES = (
    "lut",
    "lut16",
    "elementwise",
    "fused",
    "pool",
    "quantize",
    "reduce",
    "resize",
    "shape",
    "softmax",
    "conv_q8",
    "depthwise_q8",
    "fully_connected_q8",
    "winograd_q8",
    "amx_q8",
    "hybrid_q8",
    "block_q4",
    "conv_float",
    "depthwise_float",
    "fully_connected_float",
    "transpose_conv",
    "variable",
    *("slices", "places", "gather", "order", "diagonal", "detection", "suppression"),
    "matmul",
    "matmul_hybrid",
    "attention",
    "residual",
    "bands",
    "conv_q16",
    "conv_int16",
    "parts_q8",
    "l2_norm",
    "fft",
    "conv_direct",
    "lstm",
    "lstm_q8",
    "lstm_hybrid",
    "svdf",
)

for family in FAMILIES:
    import_module(f"{__name__}.{family}")
