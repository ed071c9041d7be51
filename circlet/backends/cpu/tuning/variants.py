"""The table of kernel variants: one row per C function that a plan may call.

A row says what the variant computes and for whom, how its results relate to the records, which
test reaches it and which public network measures it (`python -m bench kernels`). Questions that
lowerings have (`knobs.py`) are named by rows, and the candidates of a knob of method are rows.
Products and recurrent cells stand here, all others in `row_variants.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from circlet.backends.cpu.tuning.row_variants import ROW_VARIANTS
from circlet.backends.cpu.tuning.variant import LITE as _LITE
from circlet.backends.cpu.tuning.variant import ONE as _ONE
from circlet.backends.cpu.tuning.variant import Numerics, Variant
from circlet.backends.cpu.tuning.variant import row as _row

_TILE = ("tile",)
_E, _F, _O, _L = Numerics.EXACT, Numerics.ELEMENT, Numerics.ORDERED, Numerics.LANES
_W, _B = Numerics.WINOGRAD, Numerics.BF16
_VNNI, _BF16 = "x86_64+v4+avx512vnni", "x86_64+v4+avx512bf16"
_VBMI = f"{_VNNI}+avx512vbmi"
_AMX = f"{_VNNI}+amx_int8"

_PRODUCTS = (
    _row(
        "conv_f32",
        "conv_f32",
        "float convolutions (also grouped, transposed, with an addend), fully connected layers "
        "and products with a constant, as implicit matrix products",
        _O,
        "float_conv",
        "mobilenet_v1_0.25_224_float",
        knobs=("method", "fold", "tile"),
    ),
    _row(
        "conv_groups_f32",
        "conv_groups_f32",
        "float convolutions in groups of 2, 4 or 8 channels, several groups to a register",
        _O,
        "float_groups",
        "",
        target="x86_64+v3",
    ),
    _row(
        "winograd_f32",
        "winograd_f32",
        "float convolutions of 3 x 3 and stride 1, by patches of 4 x 4",
        _W,
        "float_winograd",
        "resnet8_cifar10_float",
        knobs=("method", "tile"),
    ),
    _row(
        "pack_winograd_f32",
        "pack_winograd_f32",
        "weights that are computed once, ahead of winograd_f32",
        _W,
        "once",
        "",
    ),
    _row(
        "conv_bf16",
        "conv_bf16",
        "what conv_f32 computes, where bfloat16 is asked for",
        _B,
        "bf16",
        "mobilenet_v1_0.25_224_float",
        target=_BF16,
        precision="bf16",
        knobs=_TILE,
    ),
    _row(
        "amx_conv_bf16",
        "amx_conv_bf16",
        "what conv_bf16 computes, on AMX tiles",
        _B,
        "amx_bf16",
        "deeplabv3_257_float",
        target=f"{_BF16}+amx_bf16",
        precision="bf16",
    ),
    _row(
        "conv_direct",
        "conv_direct",
        "3-D convolutions",
        _O,
        "conv_direct",
        f"{_LITE}tflite_testdata_conv3d_huge_im2col",
    ),
    _row(
        "pack_conv_f32",
        "pack_conv_f32",
        "weights that are computed, ahead of conv_f32 and depthwise_f32",
        _E,
        "float_computed",
        f"{_ONE}FullyConnected_002",
    ),
    _row(
        "conv_q8",
        "conv_q8",
        "convolutions and fully connected layers of int8 and uint8 by dot products, also with "
        "float activations over int8 weights",
        _E,
        "q8_conv",
        "vww_96_int8",
        knobs=("method", "tile"),
    ),
    _row(
        "conv_groups_q8",
        "conv_groups_q8",
        "what conv_q8 computes, in groups of 4 or 8 channels, several groups to a register",
        _E,
        "q8_groups",
        "",
        target="x86_64+v3",
    ),
    _row(
        "conv_q8_image",
        "conv_q8_image",
        "what conv_q8 computes, over images of few channels, by permutations of bytes",
        _E,
        "q8_image",
        "vww_96_int8",
        target=_VBMI,
    ),
    _row(
        "pack_conv_q8",
        "pack_conv_q8",
        "weights and matrices of int8 and uint8 that are computed, ahead of conv_q8",
        _E,
        "q8_computed",
        "",
    ),
    _row(
        "winograd_q8",
        "winograd_q8",
        "convolutions of int8 and uint8 of 3 x 3 and stride 1, by patches of 4 x 4 in int16",
        _E,
        "q8_winograd",
        "resnet8_cifar10_int8",
        knobs=("method",),
    ),
    _row(
        "amx_conv_q8",
        "amx_conv_q8",
        "what conv_q8 computes, on AMX tiles",
        _E,
        "amx",
        "mobilenet_v2_1.0_224_quant",
        target=_AMX,
    ),
    _row(
        "conv_q16",
        "conv_q16",
        "int16 activations over int8 weights",
        _E,
        "conv_int16",
        "static_w8_a16_q_einsum",
    ),
    _row("conv_int", "conv_int", "int16 depthwise convolutions", _E, "conv_int16", ""),
    _row(
        "depthwise_f32",
        "depthwise_f32",
        "float depthwise convolutions",
        _O,
        "float_depthwise",
        "mobilenet_v1_0.25_224_float",
        knobs=_TILE,
    ),
    _row(
        "depthwise_q8",
        "depthwise_q8",
        "depthwise convolutions of int8 and uint8",
        _E,
        "q8_depthwise",
        "mobilenet_v1_0.25_224_quant",
        target=_VNNI,
        knobs=_TILE,
    ),
    _row(
        "depthwise_pairs_q8",
        "depthwise_pairs_q8",
        "the same on AVX2 and SSE, by products of two taps in 16 bits",
        _E,
        "q8_depthwise",
        "mobilenet_v1_0.25_224_quant",
        target="x86_64+v3",
        knobs=_TILE,
    ),
    _row(
        "stripe",
        "stripe",
        "chains of convolutions, a few rows at a time, by the kernels of each",
        _O,
        "stripes",
        "deeplabv3_257_float",
    ),
    _row(
        "block_bits",
        "block_bits",
        "float rows over weights of 4 or 8 bits with scales per block",
        _L,
        "block_bits",
        "qwen_fc_blockwise_int4",
        target=_VNNI,
    ),
    _row(
        "block_bits_split",
        "block_bits",
        "rows of floats split into integers of 8 bits, for block_bits",
        _L,
        "block_bits",
        "qwen_fc_blockwise_int4",
        target=_VNNI,
    ),
    _row(
        "group_attention",
        "group_attention",
        "GroupQueryAttention of few rows",
        _L,
        "group_attention",
        "",
    ),
    _row(
        "group_attention_packed",
        "group_attention",
        "GroupQueryAttention of many rows",
        _L,
        "group_attention",
        "",
        knobs=_TILE,
    ),
    _row(
        "group_attention_append",
        "group_attention",
        "turned keys, and values, into caches, ahead of group_attention",
        _F,
        "group_attention",
        "",
    ),
    _row(
        "hybrid_image",
        "hybrid_q8",
        "float activations as int8 with a scale per row, ahead of conv_q8 and depthwise_q8",
        _E,
        "q8_hybrid",
        "kws_dscnn_hybrid",
    ),
    _row("hybrid_ranges", "hybrid_q8", "ranges of parts of large images", _E, "q8_hybrid", ""),
    _row(
        "hybrid_parts", "hybrid_q8", "hybrid_image for parts of large images", _E, "q8_hybrid", ""
    ),
    _row(
        "stored_rows",
        "stored_rows",
        "stored rows with zero points that a run computes, and their sums, ahead of conv_q8",
        _E,
        "cross_sums",
        "",
    ),
    _row(
        "cross_rows_q8",
        "cross_rows_q8",
        "products of a few stored rows with bytes that a run computes",
        _E,
        "cross_sums",
        "",
    ),
    _row(
        "pack_sums_q8",
        "pack_sums_q8",
        "bytes that a run computes, packed for sums, with their zero points, ahead of conv_q8",
        _E,
        "cross_sums",
        "",
    ),
    _row(
        "stored_image",
        "stored_image",
        "stored rows or images with a zero point that a run computes, ahead of conv_q8",
        _E,
        "integer_sums",
        "",
    ),
    _row(
        "matmul_f32",
        "matmul_f32",
        "float products of two computed matrices",
        _L,
        "matmul",
        "toy_llm_kv_cache_two_signatures",
        knobs=_TILE,
    ),
    _row(
        "matmul_f64",
        "matmul_f64",
        "MatMul and Gemm of doubles",
        _L,
        "matmul_f64",
        "",
    ),
    _row(
        "matmul_bf16",
        "matmul_bf16",
        "what matmul_f32 computes for many rows, where bfloat16 is asked for",
        _B,
        "bf16",
        "",
        target=_BF16,
        precision="bf16",
    ),
    _row(
        "matmul_int",
        "matmul_int",
        "int16 products of two computed matrices",
        _E,
        "matmul",
        f"{_LITE}test_testdata_matmul_quant",
    ),
    _row(
        "attention_f32",
        "attention_f32",
        "float attention, by blocks of rows whose scores the cache holds",
        _L,
        "attention",
        "torchaudio_conformer",
        knobs=_TILE,
    ),
    _row(
        "attention_bf16",
        "attention_f32",
        "what attention_f32 computes, where bfloat16 is asked for",
        _B,
        "bf16",
        "torchaudio_conformer",
        target=_BF16,
        precision="bf16",
        knobs=_TILE,
    ),
    _row(
        "cast_bf16",
        "cast_bf16",
        "floats as bfloat16, ahead of other kernels",
        _B,
        "bf16",
        "mobilenet_v1_0.25_224_float",
        target=_BF16,
        precision="bf16",
    ),
)

_RECURRENT = (
    _row("lstm_f32", "lstm", "float LSTM cells", _L, "recurrent", "mnist_lstm_float"),
    _row("lstm_hybrid", "lstm_hybrid", "float LSTM over int8 weights", _L, "recurrent", ""),
    _row("lstm_q8", "lstm_q8", "integer LSTM cells", _E, "recurrent", "mnist_lstm_int8"),
    _row(
        "recurrent_f32",
        "recurrent_f32",
        "float plain, GRU and LSTM cells over products made ahead",
        _L,
        "recurrent_cells",
        "",
    ),
    _row(
        "recurrent_stored",
        "recurrent_together",
        "inputs of 8-bit LSTMs as bytes, ahead of conv_q8",
        _F,
        "recurrent_cells",
        "",
    ),
    _row(
        "recurrent_bytes",
        "recurrent_f32",
        "inputs of 8-bit LSTMs whose zero points int8 does not absorb",
        _F,
        "recurrent_cells",
        "",
    ),
    _row(
        "recurrent_together",
        "recurrent_together",
        "8-bit LSTMs, a step of all sequences at a time",
        _L,
        "recurrent_cells",
        "",
    ),
    _row(
        "rnn_hybrid", "rnn_hybrid", "float plain cells over int8 weights", _L, "recurrent_pairs", ""
    ),
    _row("svdf_f32", "svdf", "float SVDF cells", _L, "recurrent", ""),
    _row("svdf_hybrid", "svdf_hybrid", "float SVDF cells over int8 weights", _L, "recurrent", ""),
    _row("svdf_q8", "svdf", "integer SVDF cells", _E, "recurrent", "keyword_scrambled_svdf_int8"),
)

VARIANTS = {row.name: row for row in (*_PRODUCTS, *_RECURRENT, *ROW_VARIANTS)}


def stays_in_class(default: str, other: str) -> bool:
    """Whether one candidate of a knob may stand for another: its bound is not larger."""
    if default not in VARIANTS or other not in VARIANTS:
        return True
    return VARIANTS[other].numerics.bound <= VARIANTS[default].numerics.bound


def measured() -> Iterable[Variant]:
    """The rows that a public network measures."""
    return (row for row in VARIANTS.values() if row.network)
