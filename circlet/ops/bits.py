"""Ops on bits and places: BITCAST, BITWISE_XOR, RIGHT_SHIFT, BUCKETIZE, BROADCAST_ARGS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape
from circlet.ops.elementwise import binary, kind_of, plain
from circlet.ops.expr import Const, Expr, Scalar, Var, call, clamp
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    infer_ranked,
    known_ints,
    moves_bytes,
    operand,
    present,
    when_ranked,
)

_CAST = ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "UINT16", "UINT32")
_MOST_COMPARED = 64
_INTEGERS = "INT8 UINT8 INT16 INT32"

binary(
    "BITWISE_XOR",
    plain(lambda a, b: call("xor", a, b)),
    _INTEGERS,
)


def _shifted(op: Op) -> Scalar:
    """As far as there are bits; a negative count shifts by none."""
    count = clamp(Var(1, "i32"), 0, operand(op, 0).dtype.bits - 1)
    return Scalar(call("shr", Var(0, "i32"), count))


binary("RIGHT_SHIFT", _shifted, _INTEGERS)


@dataclass(frozen=True)
class BucketizeAttrs:
    """Where buckets begin, rising."""

    boundaries: tuple[float, ...] = ()


def _boundaries(op: Op) -> tuple[float, ...]:
    return op.attributes(BucketizeAttrs).boundaries


def bucket(op: Op) -> Scalar:
    """How many boundaries an element is not below; GraphError for too many to compare with each."""
    kind, boundaries = kind_of(op), _boundaries(op)
    if len(boundaries) > _MOST_COMPARED:
        raise GraphError("boundaries are too many to compare with each", where=op.name)
    total: Expr = Const(0, "i32")
    for start in boundaries:
        least = start if kind == "f32" else int(np.ceil(start))
        reached = call("ge", Var(0, kind), Const(least, kind))
        total = total + call("select", reached, Const(1, "i32"), Const(0, "i32"))
    return Scalar(total)


def _evaluate_buckets(op: Op, inputs: Arrays) -> list[np.ndarray]:
    starts = np.asarray(_boundaries(op), np.float32)
    values = present(inputs[0])
    return [np.searchsorted(starts, values.astype(np.float64), "right").astype(np.int32)]


def _rising(op: Op) -> bool:
    starts = np.asarray(_boundaries(op), np.float64)
    return bool(np.isfinite(starts).all() and (np.diff(starts) >= 0).all())


def _bucket_cost(op: Op) -> Cost:
    """A binary search for each element."""
    elements, depth = operand(op, 0).elements, len(_boundaries(op)).bit_length()
    return Cost(bytes=moves_bytes(op).bytes, operations=elements * depth)


register(
    OpDef(
        kind="BUCKETIZE",
        attrs=BucketizeAttrs,
        arity=(1, 1),
        dtypes=("FLOAT32 -> INT32", "INT32 -> INT32"),
        infer=lambda op: [TensorType(DType.INT32, operand(op, 0).shape)],
        evaluate=_evaluate_buckets,
        rules=(Rule("boundaries", _rising, "boundaries must be finite and must not fall"),),
        cost=_bucket_cost,
        scalar=bucket,
    )
)


def _recast(shape: Shape, given: int, wanted: int) -> Shape | None:
    """Sizes after elements of `given` bits became elements of `wanted` bits; None if impossible."""
    if given >= wanted:
        return shape if given == wanted else (*shape, given // wanted)
    if not shape or shape[-1] not in (None, wanted // given):
        return None
    return shape[:-1]


def _recast_of(op: Op) -> Shape | None:
    source = operand(op, 0)
    return _recast(source.shape, source.dtype.bits, op.outputs[0].dtype.bits)


def _infer_bitcast(op: Op) -> list[TensorType]:
    shape = _recast_of(op)
    if shape is None:
        raise GraphError("the last size does not hold the bits of one element", where=op.name)
    return [TensorType(op.outputs[0].dtype, shape)]


def _evaluate_bitcast(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, wanted = present(inputs[0]), op.outputs[0].dtype
    shape = _recast(values.shape, operand(op, 0).dtype.bits, wanted.bits)
    if shape is None or None in shape:
        raise GraphError("the last size does not hold the bits of one element", where=op.name)
    sizes = tuple(size or 0 for size in shape)
    return [np.ascontiguousarray(values.reshape(-1)).view(wanted.numpy).reshape(sizes)]


register(
    OpDef(
        kind="BITCAST",
        arity=(1, 1),
        dtypes=tuple(f"{given} -> {wanted}" for given in _CAST for wanted in _CAST),
        infer=infer_ranked(_infer_bitcast),
        evaluate=_evaluate_bitcast,
        rules=(
            when_ranked(
                "last-size",
                lambda op: _recast_of(op) is not None,
                "the last size must hold the bits of one element",
            ),
        ),
    )
)


def _infer_args(op: Op) -> list[TensorType]:
    lengths = [operand(op, index).shape[0] for index in (0, 1)]
    longest = None if None in lengths else max(length or 0 for length in lengths)
    return [TensorType(operand(op, 0).dtype, (longest,))]


def _evaluate_args(op: Op, inputs: Arrays) -> list[np.ndarray]:
    first, second = present(inputs[0]), present(inputs[1])
    length = max(first.size, second.size)
    pair = [np.pad(sizes, (length - sizes.size, 0), constant_values=1) for sizes in (first, second)]
    if ((pair[0] != pair[1]) & (pair[0] != 1) & (pair[1] != 1)).any():
        why = f"{first.tolist()} and {second.tolist()}"
        raise GraphError("sizes do not broadcast", where=op.name, why=why)
    return [np.where(pair[0] == 1, pair[1], pair[0])]


def _are_lists(op: Op) -> bool:
    return all(len(operand(op, index).shape) == 1 for index in (0, 1))


def _args_agree(op: Op) -> bool:
    pair = [known_ints(op.input(index)) for index in (0, 1)]
    if pair[0] is None or pair[1] is None:
        return True
    zipped = zip(reversed(pair[0]), reversed(pair[1]), strict=False)
    return all(a == b or 1 in (a, b) for a, b in zipped)


register(
    OpDef(
        kind="BROADCAST_ARGS",
        arity=(2, 2),
        required=2,
        dtypes=("INT32 INT32 -> INT32", "INT64 INT64 -> INT64"),
        infer=infer_ranked(_infer_args),
        evaluate=_evaluate_args,
        rules=(
            when_ranked("lists", _are_lists, "both operands must be lists of sizes"),
            when_ranked("sizes", _args_agree, "sizes must be equal or 1, counted from the last"),
        ),
    )
)
