"""Where LiteRT is no judge: what its kernels leave undefined, or where Circlet chose otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType
from tests.generated.case import Case
from tests.generated.draw import Operand

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Exclusion:
    """Cases of some kinds that are not compared with LiteRT, though with each other.

    Attributes:
        applies: Whether a case with its results is one of them.
    """

    kinds: frozenset[str]
    reason: str
    applies: Callable[[Case, Arrays], bool]


def _operands(case: Case) -> list[Operand]:
    return [operand for operand in case.parts.operands if operand is not None]


def has_nan(case: Case, results: Arrays) -> bool:
    """Whether an operand has an element that is not a number."""
    arrays = [operand.array for operand in _operands(case)]
    return any(array.dtype.kind in "fc" and bool(np.isnan(array).any()) for array in arrays)


def _is_infinite(case: Case, results: Arrays) -> bool:
    return any(array.dtype.kind == "f" and bool(np.isinf(array).any()) for array in results)


def _leaves_range(case: Case, results: Arrays) -> bool:
    """Whether a float has no value of the integer type that it becomes."""
    source, wanted = _operands(case)[0].array, case.op.outputs[0].dtype
    if source.dtype.kind not in "fc" or not wanted.is_integer:
        return False
    info = np.iinfo(wanted.name.lower())
    with np.errstate(invalid="ignore"):
        whole = np.trunc(source.real.astype(np.float64))
        return not bool(((whole >= info.min) & (whole < float(info.max) + 1)).all())


def _leaves_steps(case: Case, results: Arrays) -> bool:
    """Whether a float divided by the output's scale is no 32-bit number."""
    source, quant = _operands(case)[0].array, case.op.outputs[0].quant
    if source.dtype.kind != "f" or quant is None:
        return False
    with np.errstate(all="ignore"):
        return not bool((np.abs(source / quant.scale[0]) < 2.0**30).all())


def _overflows(case: Case, results: Arrays) -> bool:
    """Whether a whole power leaves its type."""
    base, exponent = (operand.array.astype(np.float64) for operand in _operands(case)[:2])
    with np.errstate(all="ignore"):
        power = np.abs(base**exponent)
    return case.form.output.is_integer and not bool((power < 2.0**31).all())


def _stacks_deep(case: Case, results: Arrays) -> bool:
    """Whether float matrices in stacks of two dimensions or more are multiplied by integers."""
    is_hybrid = case.form.inputs == (DType.FLOAT32, DType.INT8)
    return is_hybrid and max(operand.array.ndim for operand in _operands(case)) > 3


def _shapes_differ(case: Case, results: Arrays) -> bool:
    return len({operand.array.shape for operand in _operands(case)}) > 1


def _shares_scale(case: Case, results: Arrays) -> bool:
    """Whether a hybrid depthwise convolution has several channels and one scale."""
    weights = _operands(case)[1]
    channels = weights.array.shape[3]
    if case.form.input(0) is not DType.FLOAT32 or weights.quant is None:
        return False
    return channels > 1 and weights.quant.scale.size == 1


def _is_scalar(case: Case, results: Arrays) -> bool:
    return _operands(case)[0].array.ndim == 0


def _is_empty(case: Case, results: Arrays) -> bool:
    return any(operand.array.size == 0 for operand in _operands(case))


def _starts_finite(case: Case, results: Arrays) -> bool:
    return has_nan(case, results) or _is_infinite(case, results)


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


EXCLUSIONS = (
    Exclusion(
        _kinds("CAST"),
        "a float outside the range of an integer type has no value there in C++",
        _leaves_range,
    ),
    Exclusion(
        _kinds("QUANTIZE"),
        "a quotient of a float and the scale beyond 32 bits has no value there in C++; here it is "
        "the nearest step",
        _leaves_steps,
    ),
    Exclusion(
        _kinds("REDUCE_MAX REDUCE_MIN"),
        "LiteRT starts from the largest finite number, so that infinities are lost, and skips NaN; "
        "here infinities are kept and NaN spreads",
        _starts_finite,
    ),
    Exclusion(
        _kinds("ARG_MAX ARG_MIN TOPK_V2 UNIQUE"),
        "the order of NaN among numbers is not defined",
        has_nan,
    ),
    Exclusion(
        _kinds("MAXIMUM MINIMUM FAKE_QUANT NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5"),
        "which operand a comparison with NaN takes differs between LiteRT's kernels; here NaN "
        "stays NaN",
        has_nan,
    ),
    Exclusion(
        _kinds("ADD ADD_N DIV MUL SUB"),
        "LiteRT's reference kernels clamp to the largest finite number, its default ones do not; "
        "here infinity stays",
        _is_infinite,
    ),
    Exclusion(
        _kinds("BATCH_MATMUL"),
        "LiteRT takes the scale of another matrix where float stacks of several dimensions meet "
        "integers",
        _stacks_deep,
    ),
    Exclusion(
        _kinds("POW"),
        "a power beyond the range of an integer type has no value there in C++; here it wraps",
        _overflows,
    ),
    Exclusion(
        _kinds("ATAN2"),
        "LiteRT's kernel does not broadcast: it reads as if both sizes were the first's",
        _shapes_differ,
    ),
    Exclusion(
        _kinds("DEPTHWISE_CONV_2D"),
        "LiteRT reads past the one scale of a hybrid layer's weights (docs/exactness.md)",
        _shares_scale,
    ),
    Exclusion(_kinds("TRANSPOSE"), "LiteRT's kernel does not copy a tensor of rank 0", _is_scalar),
    Exclusion(
        _kinds("REVERSE_SEQUENCE"), "LiteRT's kernel ends the process where it is empty", _is_empty
    ),
    Exclusion(
        _kinds("CUSTOM:TFLite_Detection_PostProcess"),
        "LiteRT does not write rows for which there is no detection; here they are 0",
        lambda case, results: bool(results[3][0] < case.op.outputs[1].static_shape[1]),
    ),
    Exclusion(
        _kinds("SUM"),
        "LiteRT stores 0 for a sum of no elements; here it is the zero point",
        _is_empty,
    ),
    Exclusion(
        _kinds("SUM"),
        "LiteRT's reference kernel reads INT8 and INT16 as UINT8; its default one sums floats",
        lambda case, results: case.form.input(0) in (DType.INT8, DType.INT16),
    ),
)


UNORDERED = Exclusion(
    _kinds("MAXIMUM MINIMUM REDUCE_PROD"),
    "results with NaN or infinity among the operands depend on which operand comes first",
    _starts_finite,
)


def excused_between_backends(case: Case, results: Arrays) -> bool:
    """Whether backends may differ, by `UNORDERED`."""
    return case.kind in UNORDERED.kinds and UNORDERED.applies(case, results)


def excused(case: Case, results: Arrays) -> str:
    """Why LiteRT's answer to a case does not count, "" where it does."""
    found = (e.reason for e in EXCLUSIONS if case.kind in e.kinds and e.applies(case, results))
    return next(found, "")
