"""Variants that work on rows, images and elements where they lie: arithmetic, and moves."""

from __future__ import annotations

from circlet.backends.cpu.tuning.variant import LITE as _LITE
from circlet.backends.cpu.tuning.variant import ONE as _ONE
from circlet.backends.cpu.tuning.variant import Numerics
from circlet.backends.cpu.tuning.variant import row as _row

_SOUND = "audio_preprocessor_int8"
_E, _F, _O, _L = Numerics.EXACT, Numerics.ELEMENT, Numerics.ORDERED, Numerics.LANES

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

_DATA_MOVEMENT = (
    _row("copy_elements", "copy", "elements at strides", _E, "shape", "torchaudio_conformer"),
    _row("copy_rows", "copy", "rows", _E, "shape", "torchaudio_conformer"),
    _row("copy_reversed", "copy", "rows backwards", _E, "slices", ""),
    _row("fill_border", "copy", "borders around images", _E, "storage", "vww_96_float"),
    _row("pad_rows", "copy", "padding", _E, "shape", "yamnet_audio_classifier"),
    _row("copy_indirect", "copy", "blocks and mirrors", _E, "slices", "style_transfer_f16_384"),
    _row("select_elements", "select", "selection", _E, "slices", "torchaudio_conformer"),
    _row("reverse_sequence", "gather", "sequences", _E, "gather", f"{_ONE}ReverseSequence_000"),
    _row("gather", "gather", "gathers", _E, "gather", "movie_review"),
    _row("embedding_lookup", "gather", "8-bit embeddings", _E, "gather", ""),
    _row("one_hot", "gather", "one-hot rows", _E, "gather", f"{_ONE}OneHot_000"),
    _row("scatter_nd", "gather", "scatters", _O, "gather", f"{_ONE}ScatterNd_000"),
    _row("slice_at", "gather", "slices from computed starts", _E, "gather", ""),
    _row("matmul_hybrid", "matmul_hybrid", "float rows over 8 bits", _L, "computed_weights", ""),
    _row("segment_reduce", "gather", "segment reductions", _O, "bits", ""),
    _row("sparse_to_dense", "gather", "scatters", _E, "gather", f"{_ONE}SparseToDense_000"),
    _row("dynamic_update_slice", "gather", "updates of slices", _E, "updates", "while_dynamic"),
    _row("gather_windows", "indexed", "windows at indices", _E, "stablehlo", ""),
    _row("scatter_windows", "indexed", "updates of windows at indices", _O, "stablehlo", ""),
    _row("reduce_window", "reduce_window", "joins of windows", _O, "stablehlo", ""),
    _row("bucketize", "bucketize", "buckets of many boundaries", _O, "bits", ""),
    _row("cast", "cast", "changes of type", _E, "cast", ""),
    _row("top_k", "top_k", "the largest of rows", _E, "gather", f"{_ONE}TopKV2_001"),
    _row(
        "detection_postprocess",
        "detection_postprocess",
        "detection boxes",
        _F,
        "detection",
        "coco_ssd_mobilenet_v1_1.0_quant",
    ),
    _row(
        "non_max_suppression",
        "non_max_suppression",
        "detection boxes",
        _F,
        "detection",
        f"{_ONE}NonMaxSuppressionV4_001",
    ),
    _row("user_op", "user_op", "the user's operators", _F, "frontends/test_user_ops", ""),
)

ROW_VARIANTS = (*_ROWS, *_DATA_MOVEMENT)
