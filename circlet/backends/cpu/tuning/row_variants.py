"""Variants of recurrent cells, and those that work on rows, images and elements."""

from __future__ import annotations

from circlet.backends.cpu.tuning.variant import LITE as _LITE
from circlet.backends.cpu.tuning.variant import ONE as _ONE
from circlet.backends.cpu.tuning.variant import Numerics
from circlet.backends.cpu.tuning.variant import row as _row

_SOUND = "audio_preprocessor_int8"
_E, _F, _O, _L = Numerics.EXACT, Numerics.ELEMENT, Numerics.ORDERED, Numerics.LANES

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
        "rnn_hybrid", "rnn_hybrid", "float plain cells over int8 weights", _L, "recurrent_pairs", ""
    ),
    _row("svdf_f32", "svdf", "float SVDF cells", _L, "recurrent", ""),
    _row("svdf_hybrid", "svdf_hybrid", "float SVDF cells over int8 weights", _L, "recurrent", ""),
    _row("svdf_q8", "svdf", "integer SVDF cells", _E, "recurrent", "keyword_scrambled_svdf_int8"),
)

_ROWS = (
    _row(
        "elementwise",
        "elementwise",
        "element-wise operators, also fused",
        _F,
        "elementwise",
        "yamnet_audio_classifier",
    ),
    _row(
        "fused_rows",
        "fused_rows",
        "fused row-wise operators: normalisations",
        _L,
        "fused_rows",
        "torchaudio_conformer",
    ),
    _row(
        "quantize",
        "quantize",
        "floats to int8 and uint8",
        _E,
        "quantize",
        "partly_quantized_mnist",
    ),
    _row(
        "lut",
        "lut",
        "8-bit functions by tables",
        _E,
        "elementwise",
        "coco_ssd_mobilenet_v1_1.0_quant",
    ),
    _row("lut_pairs", "lut", "8-bit quotients by tables", _E, "bits", ""),
    _row(
        "lut16",
        "lut16",
        "int16 functions by tables",
        _E,
        "math",
        f"{_LITE}test_testdata_single_rsqrt_default_a16w8_recipe_quantized",
    ),
    _row(
        "reduce",
        "reduce",
        "sums, means, products, maxima, minima",
        _L,
        "reduce",
        "style_transfer_f16_384",
    ),
    _row("reduce_i64", "reduce_i64", "sums of int64", _E, "reduce", ""),
    _row(
        "arg_min_max",
        "arg_min_max",
        "arg-max and arg-min",
        _E,
        "reduce",
        "deeplabv3_mnv2_dm05_pascal_quant",
    ),
    _row("softmax_f32", "softmax_f32", "float softmax", _L, "softmax", "kws_dscnn_hybrid"),
    _row("softmax_q8", "softmax", "integer softmax", _E, "softmax", "kws_dscnn_int8"),
    _row("softmax_q16", "softmax16", "int16 softmax", _E, "softmax", ""),
    _row("log_softmax_f32", "softmax_f32", "float", _L, "softmax", f"{_ONE}LogSoftmax_000"),
    _row("log_softmax_q8", "softmax", "integer", _E, "softmax", f"{_ONE}LogSoftmax_U8_000"),
    _row("l2_norm", "l2_norm", "L2 normalisation", _L, "norm", f"{_ONE}L2Normalize_000"),
    _row("l2_norm_q8", "l2_norm_q8", "L2 normalisation of bytes", _E, "norm", ""),
    _row("local_response_norm", "local_response_norm", "local response norms", _O, "norm", ""),
    _row("pool", "pool", "pooling", _L, "pool", "face_detection_short_range"),
    _row("cumsum", "cumsum", "cumulative sums", _O, "gather", ""),
    _row("rfft", "fft", "real Fourier transforms", _L, "fft", "yamnet_audio_classifier"),
    _row(
        "complex_part",
        "fft",
        "parts and moduli of complex numbers",
        _F,
        "fft",
        "yamnet_audio_classifier",
    ),
    _row("fixed_fft", "fixed_fft", "transforms of integers", _E, "signal", _SOUND),
    _row("signal", "signal", "windows, energies and bands of sound", _E, "signal", _SOUND),
    _row("argmax_pool", "mediapipe", "MediaPipe's pooling with places", _E, "mediapipe", ""),
    _row("max_unpool", "mediapipe", "MediaPipe's unpooling", _E, "mediapipe", ""),
    _row("transform_image", "mediapipe", "images through matrices", _F, "mediapipe", ""),
    _row("resize_bilinear", "resize", "images", _F, "resize", "deeplabv3_257_float"),
    _row("resize_nearest", "resize", "images", _E, "resize", "style_transfer_f16_384"),
)

ROW_VARIANTS = (*_RECURRENT, *_ROWS)
