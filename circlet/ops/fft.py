"""RFFT2D, COMPLEX_ABS, REAL and IMAG."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.elementwise import element_cost
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import count, known_ints, operand, present, when_ranked

_MOST_LENGTH = 1 << 20


def transform_lengths(op: Op) -> tuple[int, int] | None:
    """Rows and columns that are transformed, or None until a run."""
    lengths = known_ints(op.input(1))
    return (lengths[0], lengths[1]) if lengths is not None and len(lengths) == 2 else None


def _infer(op: Op) -> list[TensorType]:
    source, lengths = operand(op, 0), transform_lengths(op)
    if not source.has_rank:
        return [TensorType(DType.COMPLEX64, op.outputs[0].shape)]
    if lengths is None:
        return [TensorType(DType.COMPLEX64, (*source.shape[:-2], None, None))]
    rows, columns = lengths
    return [TensorType(DType.COMPLEX64, (*source.shape[:-2], rows, columns // 2 + 1))]


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """Rows and columns beyond the lengths are cut, missing ones are zero; computed in double."""
    values = present(inputs[0])
    rows, columns = (int(length) for length in present(inputs[1]).reshape(-1))
    if not _are_lengths((rows, columns)):
        raise GraphError(f"the lengths {rows}, {columns} are no powers of two", where=op.name)
    spectrum = np.asarray(np.fft.rfft2(values.astype(np.float64), (rows, columns)), np.complex64)
    if rows == 1:
        spectrum.imag[..., [0, -1]] = -0.0  # sums without an imaginary part, in LiteRT's form
    return [spectrum]


def _are_lengths(lengths: tuple[int, int]) -> bool:
    return all(0 < n <= _MOST_LENGTH and n & (n - 1) == 0 for n in lengths)


def _lengths_fit(op: Op) -> bool:
    lengths = transform_lengths(op)
    return (lengths is None and not operand(op, 1).is_constant) or (
        lengths is not None and _are_lengths(lengths)
    )


def _cost(op: Op) -> Cost:
    """Five operations per input element and doubling of the length."""
    elements = count(op.outputs[0].static_shape) or 0
    rows, columns = transform_lengths(op) or (1, 2)
    work = 5 * elements * max(1, (rows * columns).bit_length() - 1)
    return Cost(arithmetic=work, bytes=operand(op, 0).size_bytes + 8 * elements)


register(
    OpDef(
        kind="RFFT2D",
        arity=(2, 2),
        required=2,
        dtypes=("FLOAT32 INT32 -> COMPLEX64",),
        infer=_infer,
        evaluate=_evaluate,
        rules=(
            when_ranked(
                "planes",
                lambda op: len(operand(op, 0).shape) >= 2,
                "the input needs rank 2 or more",
            ),
            Rule("lengths", _lengths_fit, "two lengths, both powers of two, are needed"),
        ),
        numerics="tolerance",
        cost=_cost,
    )
)

register(
    OpDef(
        kind="COMPLEX_ABS",
        arity=(1, 1),
        dtypes=("COMPLEX64 -> FLOAT32",),
        infer=lambda op: [TensorType(DType.FLOAT32, operand(op, 0).shape)],
        evaluate=lambda op, inputs: [np.abs(present(inputs[0]))],
        numerics="tolerance",
        cost=element_cost,
    )
)


def _part_of(part: Callable[[np.ndarray], np.ndarray]) -> Callable[[Op, Arrays], list[np.ndarray]]:
    return lambda op, inputs: [np.array(part(present(inputs[0])), order="C")]


for _kind, _part in (("REAL", np.real), ("IMAG", np.imag)):
    register(
        OpDef(
            kind=_kind,
            arity=(1, 1),
            dtypes=("COMPLEX64 -> FLOAT32",),
            infer=lambda op: [TensorType(DType.FLOAT32, operand(op, 0).shape)],
            evaluate=_part_of(_part),
            cost=element_cost,
        )
    )
