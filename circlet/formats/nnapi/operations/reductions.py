"""Sums, products, extrema and positions along axes."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.operations.movement import as_list, never_scalar
from circlet.formats.nnapi.operations.scales import requantised
from circlet.formats.nnapi.table import lowers
from circlet.ir import Tensor

_KINDS = {
    "REDUCE_ALL": "REDUCE_ALL",
    "REDUCE_ANY": "REDUCE_ANY",
    "REDUCE_MAX": "REDUCE_MAX",
    "REDUCE_MIN": "REDUCE_MIN",
    "REDUCE_PROD": "REDUCE_PROD",
    "REDUCE_SUM": "SUM",
    "MEAN": "MEAN",
    "REDUCE_MAX_EX": "REDUCE_MAX",
    "REDUCE_MIN_EX": "REDUCE_MIN",
    "REDUCE_SUM_EX": "SUM",
}
_POSITIONS = {
    "ARGMAX": "ARG_MAX",
    "ARGMIN": "ARG_MIN",
    "ARGMAX_EX": "ARG_MAX",
}


@lowers(*_KINDS)
def _reduce(call: Call) -> None:
    """MEAN says with an INT32 whether dimensions stay, the others with a BOOL."""
    inputs = [_at_one_scale(call), as_list(call, call[1])]
    never_scalar(call, _KINDS[call.kind], inputs, keep_dims=call.flag(2))


def _at_one_scale(call: Call) -> Tensor:
    if _KINDS[call.kind] in ("REDUCE_MAX", "REDUCE_MIN"):
        return requantised(call, call[0], call.output().quant)
    return call[0]


@lowers(*_POSITIONS)
def _position(call: Call) -> None:
    into = call.output().dtype.name
    never_scalar(call, _POSITIONS[call.kind], [call[0], call[1]], output_type=into)


@lowers("TOPK_V2", "TOPK_V2_EX")
def _topk(call: Call) -> None:
    call.many("TOPK_V2", [call[0], call[1]], [call.output(0), call.output(1)])
