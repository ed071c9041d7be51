"""How attributes of the domain `nnapi` are stored: JSON, as option bytes of custom operators."""

from __future__ import annotations

import json

from circlet.errors import FormatError
from circlet.ir import Op
from circlet.ops.nnapi.record import NnapiAttrs, scalars

_MOST_BYTES = 1 << 16


def encode_nnapi(op: Op) -> bytes:
    """The option bytes of an op's attributes: `{"height": 2, "nchw": false}`."""
    return json.dumps(dict(op.attributes(NnapiAttrs).values), sort_keys=True).encode()


def decode_nnapi(data: bytes) -> NnapiAttrs:
    """The attributes that option bytes say.

    Raises:
        FormatError: They are no such JSON text.
    """
    try:
        said = json.loads(data if len(data) <= _MOST_BYTES else b"")
        values = {str(name): value for name, value in said.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise FormatError("the options of an NNAPI operator are damaged", why=str(error)) from None
    wrong = [
        name for name, value in values.items() if not isinstance(value, bool | int | float | str)
    ]
    if wrong:
        why = f"{wrong[0]} is no scalar"
        raise FormatError("the options of an NNAPI operator are damaged", why=why)
    return scalars(**values)
