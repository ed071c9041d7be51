"""Pooling over images."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.formats.nnapi.windows import has_explicit_padding, image, image_result, steps
from circlet.ops.pool import Pool2DAttrs


@lowers("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def _pool(call: Call) -> None:
    given = steps(call, 1, explicit=has_explicit_padding(call, 1, 5))
    across, down = call.whole(given.end), call.whole(given.end + 1)
    activation, is_nchw = call.activation(given.end + 2), call.flag(given.end + 3)
    attrs = Pool2DAttrs(given.padding, given.strides, (down, across), activation)
    image_result(call, call.kind, [image(call, call[0], is_nchw)], attrs, is_nchw=is_nchw)
