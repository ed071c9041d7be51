"""Kinds that no recipe reaches, and why; `test_generated.py` asserts that the list is complete."""

from __future__ import annotations

_REGIONS = "runs graphs of its own: tests/backends/cpu/test_control.py, tests/plan/test_shapes.py"
_STATE = "updates variables from run to run: "
_BOUND = "operands are bound to each other in many ways: tests/onnx_nodes.py runs ONNX's own cases"
_FEW = "numbers alone decide the result, in few forms: tests/onnx_nodes.py runs ONNX's own cases"
_OLD = "the newest operator set has it no more: tests/onnx_nodes.py runs ONNX's own cases"

_BOUND_KINDS = """AffineGrid Attention CenterCropPad Col2Im DeformConv GRU GridSample LSTM
LinearAttention MaxRoiPool MaxUnpool NonMaxSuppression QLinearConv RNN RoiAlign TensorScatter"""
_FEW_KINDS = "BitCast BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT"
_NNAPI_LAYERS = "tests/formats/nnapi/test_recurrent.py"
_NNAPI_REGIONS = "tests/formats/nnapi/test_regions.py"
# Kinds whose tests draw or list cases of their own -> where those are.
_TESTED_ELSEWHERE = {
    "ATTENTION": "tests/ops/test_circle_attention.py",
    "BCQ_FULLY_CONNECTED BCQ_GATHER": "tests/ops/test_bcq.py",
    "INSTANCE_NORM RMS_NORM ROPE": "tests/ops/test_circle_norm.py",
    "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN GRU RNN UNIDIRECTIONAL_SEQUENCE_RNN": (
        "tests/ops/test_recurrent_pairs.py"
    ),
    "CUSTOM:AudioSpectrogram CUSTOM:Mfcc": "tests/ops/test_audio.py",
    "CUSTOM:Convolution2DTransposeBias CUSTOM:Landmarks2TransformMatrix": (
        "tests/ops/test_mediapipe.py"
    ),
    "CUSTOM:MaxPoolingWithArgmax2D CUSTOM:MaxUnpooling2D CUSTOM:TransformLandmarks": (
        "tests/ops/test_mediapipe.py"
    ),
    "CUSTOM:TransformTensor CUSTOM:TransformTensorBilinear": "tests/ops/test_mediapipe.py",
    "CUSTOM:SignalDelay CUSTOM:SignalEnergy CUSTOM:SignalFftAutoScale CUSTOM:SignalFilterBank": (
        "tests/ops/test_signal.py"
    ),
    "CUSTOM:SignalFilterBankLog CUSTOM:SignalFilterBankSpectralSubtraction": (
        "tests/ops/test_signal.py"
    ),
    "CUSTOM:SignalFilterBankSquareRoot CUSTOM:SignalFramer CUSTOM:SignalIrfft": (
        "tests/ops/test_signal.py"
    ),
    "CUSTOM:SignalOverlapAdd CUSTOM:SignalPCAN CUSTOM:SignalRfft CUSTOM:SignalStacker": (
        "tests/ops/test_signal.py"
    ),
    "CUSTOM:SignalWindow": "tests/ops/test_signal.py",
    "CUSTOM:TFLM_DECODE": "tests/ops/test_micro_decode.py",
    "CUSTOM:RaggedTensorToTensor CUSTOM:TFText>NgramsStringJoin": "tests/ops/test_texts.py",
    "CUSTOM:TFText>WhitespaceTokenizeWithOffsetsV2": "tests/ops/test_texts.py",
    "CUSTOM:tftext:Ngrams CUSTOM:tftext:WhitespaceTokenizer": "tests/ops/test_texts.py",
    "CUSTOM:onnx.com.microsoft.DynamicQuantizeLSTM": (
        "tests/formats/test_onnx_microsoft_quantised.py"
    ),
    "CUSTOM:onnx.com.microsoft.GroupQueryAttention": "tests/backends/cpu/test_group_attention.py",
    "CUSTOM:onnx.com.microsoft.MatMulNBits": "tests/backends/cpu/test_block_bits.py",
    "CUSTOM:onnx.com.microsoft.CropAndResize CUSTOM:onnx.com.microsoft.Inverse": (
        "tests/formats/test_onnx_microsoft_others.py"
    ),
    "CUSTOM:nnapi.AXIS_ALIGNED_BBOX_TRANSFORM CUSTOM:nnapi.BOX_WITH_NMS_LIMIT": _NNAPI_REGIONS,
    "CUSTOM:nnapi.DETECTION_POSTPROCESSING CUSTOM:nnapi.GENERATE_PROPOSALS": _NNAPI_REGIONS,
    "CUSTOM:nnapi.HEATMAP_MAX_KEYPOINT CUSTOM:nnapi.ROI_ALIGN": _NNAPI_REGIONS,
    "CUSTOM:nnapi.ROI_POOLING": _NNAPI_REGIONS,
    "CUSTOM:nnapi.LSTM_SEQUENCE CUSTOM:nnapi.QUANTIZED_16BIT_LSTM": _NNAPI_LAYERS,
    "CUSTOM:nnapi.RNN_SEQUENCE CUSTOM:nnapi.SVDF": _NNAPI_LAYERS,
    "CUSTOM:nnapi.MATRIX_BAND_PART_EX CUSTOM:nnapi.RANDOM_MULTINOMIAL": (
        "tests/formats/nnapi/test_elements.py"
    ),
    "CUSTOM:nnapi.STATELESS_RANDOM_UNIFORM_EX": "tests/formats/nnapi/test_elements.py",
    "DENSIFY": "tests/ops/test_densify.py",
    "EMBEDDING_LOOKUP_SPARSE HASHTABLE_FIND HASHTABLE_LOOKUP HASHTABLE_SIZE": (
        "tests/ops/test_lookup.py"
    ),
    "LOCAL_RESPONSE_NORMALIZATION": "tests/ops/test_local_response_norm.py",
    "LSH_PROJECTION": "tests/ops/test_lsh_projection.py",
    "MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM": "tests/ops/test_random.py",
    "SKIP_GRAM": "tests/ops/test_skip_gram.py",
    "DILATE REDUCE_WINDOW STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CASE STABLEHLO_CONCATENATE": (
        "tests/ops/test_stablehlo.py"
    ),
    "STABLEHLO_CONVERT STABLEHLO_CONVOLUTION STABLEHLO_DOT_GENERAL STABLEHLO_DYNAMIC_SLICE": (
        "tests/ops/test_stablehlo.py"
    ),
    "STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_GATHER STABLEHLO_IOTA STABLEHLO_PAD": (
        "tests/ops/test_stablehlo.py"
    ),
    "STABLEHLO_REDUCE STABLEHLO_REDUCE_WINDOW STABLEHLO_RESHAPE STABLEHLO_RNG_BIT_GENERATOR": (
        "tests/ops/test_stablehlo.py"
    ),
    "STABLEHLO_SCATTER STABLEHLO_SELECT STABLEHLO_SLICE STABLEHLO_SORT STABLEHLO_TRANSPOSE": (
        "tests/ops/test_stablehlo.py"
    ),
    "STABLEHLO_WHILE": "tests/ops/test_stablehlo.py",
}

UNREACHED = {
    "ASSIGN_VARIABLE": f"{_STATE}tests/passes/test_resolve_variables.py",
    "IF": _REGIONS,
    "LSTM": f"{_STATE}tests/ops/test_recurrent.py, tests/backends/cpu/test_recurrent.py",
    "READ_VARIABLE": f"{_STATE}tests/passes/test_resolve_variables.py",
    "STABLEHLO_COMPOSITE": _REGIONS,
    "SVDF": f"{_STATE}tests/ops/test_svdf_by_hand.py, tests/backends/cpu/test_recurrent.py",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"{_STATE}tests/ops/test_recurrent.py",
    "WHILE": _REGIONS,
    **{f"CUSTOM:onnx.{name}": _BOUND for name in _BOUND_KINDS.split()},
    **{f"CUSTOM:onnx.{name}": _FEW for name in _FEW_KINDS.split()},
    **{f"CUSTOM:onnx.{name}": _OLD for name in ("Scatter", "Upsample")},
    "CUSTOM:onnx.NhwcConvInteger": "no node is one: tests/backends/cpu/test_integer_sums.py",
    "CUSTOM:onnx.Append": "its operand is a sequence: tests/onnx_nodes.py runs ONNX's own cases",
    **{
        kind: f"operands are bound to each other or to states: {where}"
        for kinds, where in _TESTED_ELSEWHERE.items()
        for kind in kinds.split()
    },
    "CUSTOM:onnx.ImageDecoder": "its operand is an encoded picture: tests/onnx_nodes.py",
}
