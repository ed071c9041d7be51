"""Where ONNX's reference implementation is no judge, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.generated.nodes.case import NodeCase


@dataclass(frozen=True)
class NodeExclusion:
    """Cases of some operators whose differences are not counted."""

    operators: frozenset[str]
    reason: str
    applies: Callable[[NodeCase], bool]


def _arrays(case: NodeCase) -> list[np.ndarray]:
    return [array for array in case.parts.inputs if array is not None]


def has_nan(case: NodeCase) -> bool:
    """Whether an operand has an element that is not a number."""
    return any(x.dtype.kind == "f" and bool(np.isnan(x).any()) for x in _arrays(case))


def _not_finite(case: NodeCase) -> bool:
    return any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in _arrays(case))


def _is_large(case: NodeCase) -> bool:
    """Whether sums or squares of integers may leave their type."""
    source = _arrays(case)[0]
    return source.dtype.kind in "iu" and bool((np.abs(source.astype(np.float64)) > 99).any())


def _is_wide(case: NodeCase, most: float = 1e4) -> bool:
    """Whether a float is infinite, or its square or its power would be in some type."""
    source = _arrays(case)[0]
    return source.dtype.kind == "f" and bool((np.abs(source.astype(np.float64)) > most).any())


def _is_whole(case: NodeCase) -> bool:
    return _arrays(case)[0].dtype.kind in "iu"


def _pads_differ(case: NodeCase) -> bool:
    pads = case.parts.attrs.get("pads")
    if not isinstance(pads, list):
        return False
    return len(set(pads)) > 1


def _is_p1(case: NodeCase) -> bool:
    return case.parts.attrs.get("p") == 1


def _operators(names: str) -> frozenset[str]:
    return frozenset(names.split())


NODE_EXCLUSIONS = (
    NodeExclusion(
        _operators("LpNormalization"),
        "the implementation sums elements, not their absolute values, where p is 1",
        _is_p1,
    ),
    NodeExclusion(
        _operators("LpPool MaxPool"),
        "the implementation counts windows wrong where not all pads are equal",
        _pads_differ,
    ),
    NodeExclusion(
        _operators("ConvTranspose"),
        "the implementation does not keep groups apart",
        lambda case: case.parts.attrs.get("group", 1) != 1,
    ),
    NodeExclusion(
        _operators("OneHot"),
        "the implementation multiplies both values by 0 and 1, which makes infinity no number",
        _not_finite,
    ),
    NodeExclusion(
        _operators("ReduceLogSum"),
        "a sum near 0 has either sign by the order of its terms, and so a logarithm or none",
        lambda case: bool((_arrays(case)[0] < 0).any()),
    ),
    NodeExclusion(
        _operators("ScatterElements ScatterND"),
        "which of a number and NaN is the larger is not defined",
        has_nan,
    ),
    NodeExclusion(
        _operators("PRelu"),
        "the implementation multiplies 0 by the slope, where the standard says 0",
        _not_finite,
    ),
    NodeExclusion(
        _operators("ReduceL1 ReduceL2 ReduceMean ReduceSumSquare Mean"),
        "the implementation's sums of integers wrap in their own type; the standard does not say",
        _is_large,
    ),
    NodeExclusion(
        _operators("LogSoftmax ReduceLogSumExp"),
        "the implementation takes the logarithm of shares that have become 0 or infinite",
        lambda case: _is_wide(case, 50) or _arrays(case)[0].dtype == np.float16,
    ),
    NodeExclusion(
        _operators("HardSwish ReduceMean ReduceL2"),
        "products and sums of the largest numbers overflow in one order and not in the other",
        lambda case: _is_wide(case),
    ),
    NodeExclusion(
        _operators("ArgMax ArgMin TopK Unique"),
        "the order of NaN among numbers is not defined",
        has_nan,
    ),
    NodeExclusion(
        _operators("Resize"),
        "the standard does not say how integers between pixels are rounded; here as ONNX Runtime",
        _is_whole,
    ),
)


def excused(case: NodeCase) -> str:
    """Why a difference from the judge does not count, "" where it does."""
    found = (e.reason for e in NODE_EXCLUSIONS if case.op_type in e.operators and e.applies(case))
    return next(found, "")
