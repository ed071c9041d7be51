"""Records of custom operators that users define in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.errors import BackendError, CircletError, GraphError
from circlet.ir import DType, Op, Shape, Tensor
from circlet.ops.opdef import Arrays, CFunction, Effects, OpDef, TensorType
from circlet.words import counted

_MOST_INPUTS = 1 << 16


@dataclass(frozen=True)
class UserAttrs:
    """The option bytes of the file, parsed anew wherever they are needed."""

    custom: bytes = b""


@dataclass(frozen=True)
class Operand:
    """What a shape rule sees of one input.

    Attributes:
        dtype: numpy dtype.
        shape: Sizes, None where unknown.
        data: The elements where they are known ahead of the run, else None.
        scale, zero_point: Per-tensor quantisation; 0 and 0 where there is none.
    """

    dtype: np.dtype[np.generic]
    shape: Shape
    data: np.ndarray | None = None
    scale: float = 0.0
    zero_point: int = 0


Operands = Sequence[Operand | None]
Infer = Callable[[Operands, object], Sequence[tuple[npt.DTypeLike, Sequence[int | None]]]]
Run = Callable[[Arrays, object], Sequence[np.ndarray] | np.ndarray]
ParseOptions = Callable[[bytes], object]


@dataclass(frozen=True)
class UserOp:
    """A user's operator: its name, shape rule, numpy implementation, reader of options, and C."""

    name: str
    infer: Infer
    run: Run
    options: ParseOptions
    c_function: CFunction | None = None

    def record(self) -> OpDef:
        """The record that makes it an operator like any other."""
        return OpDef(
            kind=f"CUSTOM:{self.name}",
            infer=self._infer,
            evaluate=self._evaluate,
            arity=(0, _MOST_INPUTS),
            dtypes=("-> *",),
            attrs=UserAttrs,
            outputs=None,
            required=0,
            effects=Effects.UNKNOWN,
            numerics="tolerance",
            c_function=self.c_function,
        )

    def _infer(self, op: Op) -> list[TensorType]:
        return self._types([_operand(tensor) for tensor in op.inputs], op)

    def _evaluate(self, op: Op, arrays: Arrays) -> list[np.ndarray]:
        known = [None if a is None else a.copy() for a in arrays]
        try:
            given = self.run(known, self._options(op))
            results = [
                np.asarray(a) for a in (given if isinstance(given, (list, tuple)) else [given])
            ]
            wanted = self._types([_seen(t, a) for t, a in zip(op.inputs, arrays, strict=True)], op)
        except CircletError:
            raise
        except Exception as error:  # whatever the user's function raises
            raise BackendError(
                f"{op.label} failed in the function registered for it",
                where=op.name,
                why=f"{type(error).__name__}: {error}",
            ) from error
        _check_results(op, results, wanted)
        return results

    def _types(self, operands: Operands, op: Op) -> list[TensorType]:
        try:
            rows = self.infer(operands, self._options(op))
            return [
                TensorType(_dtype(dtype), tuple(None if n is None else int(n) for n in shape))
                for dtype, shape in rows
            ]
        except CircletError:
            raise
        except Exception as error:  # whatever the user's function raises
            raise GraphError(
                f"the shape rule registered for {op.label} failed",
                where=op.name,
                why=f"{type(error).__name__}: {error}",
            ) from error

    def _options(self, op: Op) -> object:
        return self.options(op.attrs.custom if isinstance(op.attrs, UserAttrs) else b"")


def _operand(tensor: Tensor | None) -> Operand | None:
    if tensor is None:
        return None
    if not tensor.dtype.has_numpy:
        raise GraphError(
            "an input has no numpy type", where=tensor.name, why=f"it is {tensor.dtype.name}"
        )
    quant = tensor.quant
    if quant is None or quant.scale.size != 1:
        return Operand(tensor.dtype.numpy, tensor.shape, tensor.data)
    scale, zero_point = float(quant.scale[0]), int(quant.zero_point[0])
    return Operand(tensor.dtype.numpy, tensor.shape, tensor.data, scale, zero_point)


def _seen(tensor: Tensor | None, array: np.ndarray | None) -> Operand | None:
    """An input as it is in a run: its sizes and elements are those of the array."""
    known = _operand(tensor)
    if known is None or array is None:
        return None
    return Operand(array.dtype, array.shape, array, known.scale, known.zero_point)


def _dtype(dtype: npt.DTypeLike) -> DType:
    return DType.of(np.empty(0, dtype))


def _check_results(op: Op, results: Sequence[np.ndarray], wanted: Sequence[TensorType]) -> None:
    if len(results) != len(wanted):
        raise _misfit(
            op, f"it returned {counted(len(results), 'array')}, {len(wanted)} were announced"
        )
    for position, (array, expected) in enumerate(zip(results, wanted, strict=True)):
        sizes = expected.shape
        same_rank = array.ndim == len(sizes)
        pairs = zip(array.shape, sizes, strict=False)
        if not same_rank or any(size not in (None, found) for found, size in pairs):
            raise _misfit(op, f"output {position} has shape {list(array.shape)}, not {list(sizes)}")
        if array.dtype != expected.dtype.numpy:
            raise _misfit(op, f"output {position} is {array.dtype}, not {expected.dtype.numpy}")


def _misfit(op: Op, why: str) -> BackendError:
    return BackendError(
        f"{op.label} returned something else than its shape rule says",
        where=op.name,
        why=why,
        fix="make `infer` and `run` agree",
    )
