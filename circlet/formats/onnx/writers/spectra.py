"""Fourier transforms. ONNX holds complex numbers as pairs along a last axis of their own."""

from __future__ import annotations

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import Value

_REAL, _IMAGINARY = 0, 1


@writes("RFFT2D")
def _rfft2d(op: Written) -> None:
    """Along rows of real numbers, then along columns of complex ones."""
    rows, columns = op.known(1, "lengths of transforms")
    rank = len(op[0].shape)
    pairs = op.node("Unsqueeze", [op.value(op[0]), op.ints([-1])])
    last = op.ints(rank - 1)
    made = op.node("DFT", [pairs, op.ints(columns), last], onesided=1)
    if rows != 1:
        made = op.node("DFT", [made, op.ints(rows), op.ints(rank - 2)])
    elif op[0].shape[-2] != 1:
        cut = (op.ints([0]), op.ints([1]), op.ints([rank - 2]))
        made = op.node("Slice", [made, *cut])
    op.give_stored(made)


@writes("COMPLEX_ABS")
def _magnitude(op: Written) -> None:
    value = op.value(op[0])
    op.give_stored(op.node("ReduceL2", [value, op.ints([-1])], keepdims=0))


def _part(op: Written, which: int) -> Value:
    return op.node("Gather", [op.value(op[0]), op.ints(which)], axis=-1)


@writes("REAL")
def _real(op: Written) -> None:
    op.give_stored(_part(op, _REAL))


@writes("IMAG")
def _imaginary(op: Written) -> None:
    op.give_stored(_part(op, _IMAGINARY))
