"""The rows of the lowering table, one module per family; importing this fills the table."""

from importlib import import_module

# In any order: rows of one kind are asked by rank.
FAMILIES = (
    "pointwise.lut",
    "pointwise.lut16",
    "pointwise.elementwise",
    "pointwise.fused",
    "reductions.pool",
    "pointwise.quantize",
    "reductions.reduce",
    "reductions.resize",
    "moves.shape",
    "reductions.softmax",
    "integers.conv_q8",
    "integers.depthwise_q8",
    "integers.fully_connected_q8",
    "integers.winograd_q8",
    "integers.amx_q8",
    "integers.hybrid_q8",
    "floats.block_q4",
    "floats.conv_float",
    "floats.depthwise_float",
    "floats.fully_connected_float",
    "floats.transpose_conv",
    "moves.variable",
    "moves.slices",
    "moves.places",
    "moves.gather",
    "moves.order",
    "moves.diagonal",
    "boxes.detection",
    "boxes.suppression",
    "products.matmul",
    "products.matmul_hybrid",
    "products.attention",
    "floats.residual",
    "stripes.stripes",
    "integers.conv_q16",
    "integers.conv_int16",
    "integers.split_q8",
    "reductions.l2_norm",
    "reductions.fft",
    "floats.conv_direct",
    "recurrent.lstm",
    "recurrent.lstm_q8",
    "recurrent.lstm_hybrid",
    "recurrent.svdf",
)

for family in FAMILIES:
    import_module(f"{__name__}.{family}")
