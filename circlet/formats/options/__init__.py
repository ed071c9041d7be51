"""What the option tables of .tflite and .circle files say, as attributes of ops, and back.

Fields and attributes of one name are the same thing; `codec` knows the rest.
"""

from circlet.formats.options.codec import OptionCodec, codec_of
from circlet.formats.options.custom import (
    decode_custom,
    encode_custom,
    register_custom_options,
    unregister_custom_options,
)
from circlet.formats.options.part import Part

__all__ = [
    "OptionCodec",
    "Part",
    "codec_of",
    "decode_custom",
    "encode_custom",
    "register_custom_options",
    "unregister_custom_options",
]
