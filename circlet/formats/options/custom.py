"""What the option bytes of custom operators say, by custom code."""

from __future__ import annotations

from collections.abc import Callable

from circlet.formats.options import mediapipe
from circlet.formats.options.maps import decode_map, encode_map, encode_typed_map
from circlet.formats.options.nnapi import decode_nnapi, encode_nnapi
from circlet.formats.options.onnx import decode_onnx, encode_onnx
from circlet.formats.options.texts import ngrams_attrs, no_attrs, ragged_attrs
from circlet.ir import Op
from circlet.ops.audio import MfccAttrs, SpectrogramAttrs
from circlet.ops.detection import DetectionAttrs
from circlet.ops.mediapipe.landmarks import LandmarksMatrixAttrs, TransformLandmarksAttrs
from circlet.ops.nnapi.record import PREFIX as NNAPI
from circlet.ops.onnx.record import PREFIX
from circlet.ops.opdef import NoAttrs
from circlet.ops.signal import filter_bank, frames, spectrum

Decode = Callable[[bytes], object]
Encode = Callable[[Op], bytes]

# Custom operators whose options are a map of what the attributes of the class are called.
_MAPS: dict[str, type] = {
    "AudioSpectrogram": SpectrogramAttrs,
    "Landmarks2TransformMatrix": LandmarksMatrixAttrs,
    "Mfcc": MfccAttrs,
    "TFLite_Detection_PostProcess": DetectionAttrs,
    "SignalDelay": frames.DelayAttrs,
    "SignalEnergy": spectrum.EnergyAttrs,
    "SignalFftAutoScale": NoAttrs,
    "SignalFilterBank": filter_bank.FilterBankAttrs,
    "SignalFilterBankLog": filter_bank.LogAttrs,
    "SignalFilterBankSpectralSubtraction": filter_bank.SpectralSubtractionAttrs,
    "SignalFilterBankSquareRoot": NoAttrs,
    "SignalFramer": frames.FramerAttrs,
    "SignalIrfft": spectrum.FftAttrs,
    "SignalOverlapAdd": frames.OverlapAddAttrs,
    "SignalPCAN": filter_bank.PcanAttrs,
    "SignalRfft": spectrum.FftAttrs,
    "SignalStacker": frames.StackerAttrs,
    "SignalWindow": spectrum.WindowAttrs,
    "TransformLandmarks": TransformLandmarksAttrs,
}
_POOLS = ("MaxPoolingWithArgmax2D", "MaxUnpooling2D")
_TRANSFORMS = ("TransformTensor", "TransformTensorBilinear")
_TYPED = ("SignalIrfft", "SignalOverlapAdd", "SignalRfft")
_DECODE: dict[str, Decode] = {
    **{code: decode_map(kind) for code, kind in _MAPS.items()},
    "Convolution2DTransposeBias": mediapipe.decode_transpose_conv_bias,
    **dict.fromkeys(_POOLS, mediapipe.decode_pool),
    **dict.fromkeys(_TRANSFORMS, mediapipe.decode_transform),
    "RaggedTensorToTensor": ragged_attrs,
    "TFLM_DECODE": no_attrs,
    "TFText>NgramsStringJoin": ngrams_attrs,
    "TFText>WhitespaceTokenizeWithOffsetsV2": no_attrs,
    "tftext:Ngrams": ngrams_attrs,
    "tftext:WhitespaceTokenizer": no_attrs,
}
_ENCODE: dict[str, Encode] = {
    **dict.fromkeys(_MAPS, encode_map),
    **dict.fromkeys(_TYPED, encode_typed_map),
    "Convolution2DTransposeBias": mediapipe.encode_transpose_conv_bias,
    **dict.fromkeys(_POOLS, mediapipe.encode_pool),
    **dict.fromkeys(_TRANSFORMS, mediapipe.encode_transform),
}


def decode_custom(code: str) -> Decode | None:
    """How the option bytes of a custom operator become attributes; None where nothing says it."""
    if code.startswith(NNAPI):
        return decode_nnapi
    return decode_onnx if code.startswith(PREFIX) else _DECODE.get(code)


def encode_custom(code: str) -> Encode | None:
    """How the attributes of a custom operator become option bytes; None where nothing says it."""
    if code.startswith(NNAPI):
        return encode_nnapi
    return encode_onnx if code.startswith(PREFIX) else _ENCODE.get(code)


def register_custom_options(code: str, decode: Decode) -> None:
    """Say how the option bytes of a custom operator become the attributes of its record."""
    _DECODE[code] = decode


def unregister_custom_options(code: str) -> None:
    """Forget what `register_custom_options` said of a custom operator."""
    _DECODE.pop(code, None)
