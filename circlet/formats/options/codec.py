"""Which options table a kind of operator has, and how its fields become attributes.

A kind has the table of its own name, and fields mean the attributes of the same names: a kind
stands in `CODECS` where that is not so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache

from circlet.formats import schema
from circlet.formats.options.part import ACTIVATION, Part
from circlet.formats.options.resize import COORDINATES
from circlet.formats.options.stablehlo import COMPARISON
from circlet.formats.options.windows import (
    DILATIONS,
    DILATIONS_3D,
    KERNEL,
    PADDING,
    PADDING_3D,
    POOL_PADDING,
    STRIDES,
    STRIDES_3D,
    TRANSPOSED_PADDING,
    TRANSPOSED_PADDING_3D,
)
from circlet.ir import Op

Fields = Mapping[str, object]


@dataclass(frozen=True)
class OptionCodec:
    """How one kind stores its attributes.

    Attributes:
        table: The options table, "" where the kind has none.
        parts: Fields that are not the attribute of the same name.
        derived: Attributes that no field says, as they follow from the operands.
    """

    table: str = ""
    parts: tuple[Part, ...] = ()
    derived: tuple[str, ...] = ()

    def fields(self, attrs: type) -> frozenset[str]:
        """The fields that become attributes of a class; a file's others are kept as they are."""
        return _fields(self, attrs)

    def decode(self, attrs: type, fields: Fields) -> object:
        """The attributes that the fields of a table say."""
        values = {name: fields[name] for name in _plain(self, attrs) if name in fields}
        values |= {p.attribute: p.decode(fields) for p in self.parts if p.fields[0] in fields}
        made: object = attrs(**values)
        return made

    def encode(self, attrs: type, op: Op) -> dict[str, object]:
        """The fields that say an op's attributes.

        Raises:
            FormatError: The table cannot say them.
        """
        given = vars(op.attributes(attrs))
        said = {name: given[name] for name in _plain(self, attrs)}
        for part in self.parts:
            said |= part.encode(op)
        return said


@lru_cache(maxsize=512)
def _plain(codec: OptionCodec, attrs: type) -> tuple[str, ...]:
    """The attributes that are the field of the same name."""
    own = {*codec.derived, *(part.attribute for part in codec.parts)}
    return tuple(field.name for field in fields(attrs) if field.name not in own)


@lru_cache(maxsize=512)
def _fields(codec: OptionCodec, attrs: type) -> frozenset[str]:
    return frozenset((*_plain(codec, attrs), *(n for part in codec.parts for n in part.fields)))


_REDUCER = OptionCodec("ReducerOptions")
_POOL = OptionCodec("Pool2DOptions", (POOL_PADDING, STRIDES, KERNEL, ACTIVATION))
_ACTIVATED = (ACTIVATION,)
_CONV = (PADDING, STRIDES, DILATIONS, ACTIVATION)

CODECS: dict[str, OptionCodec] = {
    "ADD": OptionCodec("AddOptions", _ACTIVATED),
    "AVERAGE_POOL_2D": _POOL,
    "BCQ_FULLY_CONNECTED": OptionCodec("BCQFullyConnectedOptions", _ACTIVATED),
    "BIDIRECTIONAL_SEQUENCE_LSTM": OptionCodec("BidirectionalSequenceLSTMOptions", _ACTIVATED),
    "BIDIRECTIONAL_SEQUENCE_RNN": OptionCodec("BidirectionalSequenceRNNOptions", _ACTIVATED),
    "CONCATENATION": OptionCodec("ConcatenationOptions", _ACTIVATED),
    "CONV_2D": OptionCodec("Conv2DOptions", _CONV, derived=("groups",)),
    "CONV_3D": OptionCodec("Conv3DOptions", (PADDING_3D, STRIDES_3D, DILATIONS_3D, ACTIVATION)),
    "CONV_3D_TRANSPOSE": OptionCodec(
        "Conv3DOptions", (TRANSPOSED_PADDING_3D, STRIDES_3D, DILATIONS_3D, ACTIVATION)
    ),
    "DEPTHWISE_CONV_2D": OptionCodec("DepthwiseConv2DOptions", _CONV),
    "DIV": OptionCodec("DivOptions", _ACTIVATED),
    "FULLY_CONNECTED": OptionCodec("FullyConnectedOptions", _ACTIVATED),
    "INSTANCE_NORM": OptionCodec("InstanceNormOptions", _ACTIVATED),
    "GRU": OptionCodec("GRUOptions", _ACTIVATED),
    "L2_NORMALIZATION": OptionCodec("L2NormOptions", _ACTIVATED),
    "L2_POOL_2D": _POOL,
    "LSTM": OptionCodec("LSTMOptions", _ACTIVATED),
    "MAXIMUM": OptionCodec("MaximumMinimumOptions"),
    "MAX_POOL_2D": _POOL,
    "MEAN": _REDUCER,
    "MINIMUM": OptionCodec("MaximumMinimumOptions"),
    "MULTINOMIAL": OptionCodec("RandomOptions"),
    "MUL": OptionCodec("MulOptions", _ACTIVATED),
    "RANDOM_STANDARD_NORMAL": OptionCodec("RandomOptions"),
    "RANDOM_UNIFORM": OptionCodec("RandomOptions"),
    "REDUCE_ALL": _REDUCER,
    "REDUCE_ANY": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "REDUCE_PROD": _REDUCER,
    "RESIZE_BILINEAR": OptionCodec("ResizeBilinearOptions", (COORDINATES,)),
    "RESIZE_NEAREST_NEIGHBOR": OptionCodec("ResizeNearestNeighborOptions", (COORDINATES,)),
    "STABLEHLO_COMPARE": OptionCodec("StablehloCompareOptions", COMPARISON),
    "RNN": OptionCodec("RNNOptions", _ACTIVATED),
    "SUB": OptionCodec("SubOptions", _ACTIVATED),
    "SUM": _REDUCER,
    "SVDF": OptionCodec("SVDFOptions", _ACTIVATED),
    "TRANSPOSE_CONV": OptionCodec(
        "TransposeConvOptions", (TRANSPOSED_PADDING, STRIDES, ACTIVATION)
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": OptionCodec("UnidirectionalSequenceLSTMOptions", _ACTIVATED),
    "UNIDIRECTIONAL_SEQUENCE_RNN": OptionCodec("SequenceRNNOptions", _ACTIVATED),
}


@cache
def codec_of(kind: str, format: str) -> OptionCodec:
    """The codec of a kind in "tflite" or "circle" files."""
    named = _tables(format).get(kind.replace("_", "").lower(), "")
    return CODECS.get(kind) or OptionCodec(named)


@cache
def _tables(format: str) -> dict[str, str]:
    """Options tables by the kind that they are named after, as `codec_of` spells it."""
    names, suffix = schema.by_name(format).tables, "Options"
    return {n.removesuffix(suffix).lower(): n for n in names if n.endswith(suffix)}
