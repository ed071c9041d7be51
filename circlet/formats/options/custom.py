"""What the option bytes of custom operators say, by custom code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from circlet.errors import FormatError
from circlet.formats.flexbuffer import read_map
from circlet.formats.options.onnx import decode_onnx
from circlet.formats.options.texts import ngrams_attrs, no_attrs, ragged_attrs
from circlet.ops.detection import DetectionAttrs
from circlet.ops.onnx.record import PREFIX

Decode = Callable[[bytes], object]


def detection_attrs(data: bytes) -> DetectionAttrs:
    """The attributes of TFLite_Detection_PostProcess, whose options are a FlexBuffers map.

    Raises:
        FormatError: They are no such map, or a value has the wrong type.
    """
    values = read_map(data)
    names = {field.name for field in fields(DetectionAttrs)}
    known = {name: value for name, value in values.items() if name in names}
    texts = [name for name, value in known.items() if isinstance(value, str)]
    if texts:
        raise FormatError("a custom option is no number", where=texts[0])
    return DetectionAttrs(**known)  # type: ignore[arg-type]


_DECODE: dict[str, Decode] = {
    "TFLite_Detection_PostProcess": detection_attrs,
    "RaggedTensorToTensor": ragged_attrs,
    "TFText>NgramsStringJoin": ngrams_attrs,
    "TFText>WhitespaceTokenizeWithOffsetsV2": no_attrs,
    "tftext:Ngrams": ngrams_attrs,
    "tftext:WhitespaceTokenizer": no_attrs,
}


def decode_custom(code: str) -> Decode | None:
    """How the option bytes of a custom operator become attributes; None where nothing says it."""
    return decode_onnx if code.startswith(PREFIX) else _DECODE.get(code)


def register_custom_options(code: str, decode: Decode) -> None:
    """Say how the option bytes of a custom operator become the attributes of its record."""
    _DECODE[code] = decode


def unregister_custom_options(code: str) -> None:
    """Forget what `register_custom_options` said of a custom operator."""
    _DECODE.pop(code, None)
