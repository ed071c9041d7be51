"""What the option bytes of TensorFlow Text's operators say: FlexBuffers maps."""

from __future__ import annotations

from dataclasses import fields

from circlet.errors import FormatError
from circlet.formats.flexbuffer import flexbuffer, read_map
from circlet.ops.ngrams import NgramsAttrs
from circlet.ops.opdef import NoAttrs
from circlet.ops.ragged import RaggedTensorToTensorAttrs


def ngrams_attrs(data: bytes) -> NgramsAttrs:
    """The attributes of an n-grams operator.

    Raises:
        FormatError: They are no map, or a value has the wrong type.
    """
    values = read_map(data)
    known = {field.name: type(field.default) for field in fields(NgramsAttrs)}
    given = {name: value for name, value in values.items() if name in known}
    for name, value in given.items():
        if type(value) is not known[name]:
            raise FormatError("a custom option has the wrong type", where=name)
    return NgramsAttrs(**given)  # type: ignore[arg-type]


def ragged_attrs(data: bytes) -> RaggedTensorToTensorAttrs:
    """The attributes of RaggedTensorToTensor.

    Raises:
        FormatError: They are no map that has a list of texts.
    """
    values = flexbuffer(data)
    types = values.get("row_partition_types") if isinstance(values, dict) else None
    if not isinstance(types, list) or not all(isinstance(word, str) for word in types):
        raise FormatError("a custom option is no list of texts", where="row_partition_types")
    return RaggedTensorToTensorAttrs(tuple(map(str, types)))


def no_attrs(data: bytes) -> NoAttrs:
    """The attributes of an operator that has none, whatever the bytes are."""
    return NoAttrs()
