"""Records of ONNX operators that no Circle operator means exactly.

Each is a custom operator `onnx.<kind>`. Its attributes are the node's own, and its meaning is that
of the operator set that the node came with, in the words of the ONNX standard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from circlet.errors import GraphError, InputError
from circlet.ir import DType, Op, Origin, Shape, Tensor
from circlet.ir.packed import unpacked
from circlet.ops.expr import Scalar
from circlet.ops.opdef import Arrays, Cost, OpDef, TensorType, moves_bytes, register
from circlet.ops.operands import ranked
from circlet.small_dtypes import dtype_named

PREFIX = "onnx."
MANY = 1 << 16
Evaluate = Callable[..., Any]
Infer = Callable[[Op], list[TensorType]]


@dataclass(frozen=True)
class OnnxAttrs:
    """Attributes of a node by their names, sorted, and the version of the operator set.

    A tensor is its numpy type's name, its sizes and its elements.
    """

    values: tuple[tuple[str, object], ...] = ()
    opset: int = 0

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or what the standard says where it is not given."""
        return next((value for key, value in self.values if key == name), default)

    def array(self, name: str) -> np.ndarray | None:
        """A tensor attribute."""
        found = self.get(name)
        if found is None:
            return None
        dtype, sizes, elements = cast("tuple[str, Sequence[int], Sequence[object]]", found)
        return np.array(elements, dtype_named(dtype)).reshape(sizes)


def attributes(op: Op) -> OnnxAttrs:
    """The attributes of an op of the domain `onnx`."""
    return op.attributes(OnnxAttrs)


def onnx_op(
    kind: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    origin: Origin,
    *,
    opset: int,
    **values: object,
) -> Op:
    """A node with attributes as an operator set has them."""
    attrs, code = OnnxAttrs(tuple(sorted(values.items())), opset), f"{PREFIX}{kind}"
    return Op("CUSTOM", [*inputs], [*outputs], attrs, origin, custom_code=code)


def stated(op: Op) -> list[TensorType]:
    """The outputs as the importer stated them: for sizes that depend on data."""
    return [TensorType(tensor.dtype, tensor.shape, tensor.has_rank) for tensor in op.outputs]


def same(op: Op) -> list[TensorType]:
    """Outputs of the sizes of input 0, of the types that are stated."""
    first = op.inputs[0]
    assert first is not None
    return [TensorType(tensor.dtype, first.shape, first.has_rank) for tensor in op.outputs]


def first_same(op: Op) -> list[TensorType]:
    """Output 0 of the sizes of input 0, others as they are stated."""
    return [*same(op)[:1], *stated(op)[1:]]


def broadcast(op: Op) -> list[TensorType]:
    """One output as large as all inputs spread over each other."""
    shape: Shape = ()
    if not ranked(op):
        return stated(op)
    for tensor in op.inputs:
        if tensor is not None:
            shape = _spread(shape, tensor.shape, op)
    return [TensorType(op.outputs[0].dtype, shape)]


def _spread(left: Shape, right: Shape, op: Op) -> Shape:
    from circlet.ops.elementwise import broadcast_shape

    made = broadcast_shape(left, right)
    if made is None:
        raise GraphError(f"{left} and {right} do not broadcast", where=op.name)
    return made


def element_work(op: Op) -> Cost:
    """Some operations for each element that is read or made."""
    moved = moves_bytes(op).bytes
    return Cost(arithmetic=moved, bytes=moved)


def onnx_kind(
    kind: str,
    evaluate: Evaluate,
    *,
    infer: Infer | None = None,
    inputs: tuple[int, int] = (1, 1),
    required: int | None = None,
    cost: Callable[[Op], Cost] = element_work,
    scalar: Callable[[Op], Scalar] | None = None,
    continues: tuple[tuple[int, int], ...] = (),
) -> OpDef:
    """Register a kind; `evaluate(attrs, *arrays)` gives one array or a tuple of them.

    Arrays are None where an input is omitted. Results are brought to the stated types. Without
    `infer`, sizes are those of the row of the kind in `circlet.ops.onnx.sizes`, if it has one.
    """
    from circlet.ops.onnx.sizes import SIZES, inferred

    def run(op: Op, arrays: Arrays) -> list[np.ndarray]:
        given = [_read(*pair) for pair in zip(op.inputs, arrays, strict=True)]
        try:
            made = evaluate(attributes(op), *given)
        except InputError as error:
            where = error.where or f"{op.name} ({op.label})"
            raise InputError(error.what, where=where, why=error.why, fix=error.fix) from error
        results = made if isinstance(made, tuple) else (made,)
        if len(results) < len(op.outputs):
            why = f"{len(results)} of {len(op.outputs)}"
            raise GraphError("an operator gives fewer outputs", where=op.name, why=why)
        return [_typed(r, t.dtype) for r, t in zip(results, op.outputs, strict=False)]

    return register(
        OpDef(
            kind=f"CUSTOM:{PREFIX}{kind}",
            attrs=OnnxAttrs,
            arity=inputs,
            required=inputs[0] if required is None else required,
            outputs=None,
            dtypes=("* -> *",),
            infer=infer or (inferred(SIZES[kind]) if kind in SIZES else stated),
            evaluate=run,
            numerics="tolerance",
            cost=cost,
            scalar=scalar,
            continues=continues,
        )
    )


def _typed(result: Any, dtype: DType) -> np.ndarray:
    array, wanted = np.asarray(result), dtype.in_arrays
    return array if wanted is None else array.astype(wanted, copy=False)


def _read(tensor: Tensor | None, array: np.ndarray | None) -> np.ndarray | None:
    """An operand; a constant that is stored as bytes in a type that can be computed with."""
    is_packed = tensor is not None and tensor.dtype.is_small and array is tensor.data
    return unpacked(tensor) if is_packed and tensor is not None else array


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; GraphError where there is none."""
    if not -rank <= axis < rank:
        raise GraphError("an axis does not exist", why=f"axis {axis} of {rank}")
    return axis + rank if axis < 0 else axis


def kinds(table: Mapping[str, Evaluate], **options: Any) -> None:
    """Register several kinds that differ only in what computes them."""
    for kind, evaluate in table.items():
        onnx_kind(kind, evaluate, **options)
