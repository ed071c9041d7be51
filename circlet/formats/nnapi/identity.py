"""A hash of all that a description says."""

from __future__ import annotations

import numpy as np

from circlet.formats.nnapi.description import Description


def identity_of(description: Description) -> str:
    """A text that differs where anything of a description does, its constants included."""
    from hashlib import blake2b

    found = blake2b(digest_size=32)
    for each in description.operands:
        said = (int(each.code), each.dims, each.scale, each.zero_point, each.name)
        channels = (each.channel_dim, each.channel_scales, each.is_omitted, each.value is not None)
        found.update(repr((said, channels)).encode())
        if each.value is not None:
            found.update(np.ascontiguousarray(each.value).reshape(-1).view(np.uint8).data)
    rest = [(each.kind, each.inputs, each.outputs) for each in description.operations]
    found.update(repr((rest, description.inputs, description.outputs)).encode())
    found.update(repr(description.is_relaxed).encode())
    return found.hexdigest()
