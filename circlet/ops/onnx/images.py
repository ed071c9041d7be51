"""Pictures in their files' bytes as pixels."""

from __future__ import annotations

from io import BytesIO

import numpy as np

from circlet.errors import InputError
from circlet.ops.onnx.record import OnnxAttrs, onnx_kind
from circlet.words import counted

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
_MOST_PIXELS = 1 << 26


def _decoded(attrs: OnnxAttrs, data: np.ndarray) -> np.ndarray:
    """[height, width, channels] of the picture that the bytes are, as Pillow reads it."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError(
            "a network decodes pictures, for which Pillow is not installed",
            fix="pip install 'circlet[images]'",
        ) from None
    order = attrs.get("pixel_format", "RGB")
    if order not in _MODES:
        raise InputError("a network asks for pixels in an unknown order", why=repr(order))
    try:
        with Image.open(BytesIO(data.tobytes())) as picture:
            if picture.width * picture.height > _MOST_PIXELS:
                raise InputError("a picture is too large", why=counted(picture.size, "pixel"))
            pixels = np.asarray(picture.convert(_MODES[order]))
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise InputError("bytes are no picture that can be read", why=str(error)) from None
    if order == "Grayscale":
        return pixels[..., None]
    return pixels[..., ::-1] if order == "BGR" else pixels


onnx_kind("ImageDecoder", _decoded)
