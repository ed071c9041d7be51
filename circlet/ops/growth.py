"""Bounds results whose sizes depend on data before memory is taken for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from weakref import WeakKeyDictionary

from circlet.errors import CircletError, LimitError
from circlet.ir import Op, Tensor
from circlet.limits import Limits
from circlet.ops.opdef import Arrays, TensorType, get

_DEPENDS: WeakKeyDictionary[Op, bool] = WeakKeyDictionary()


def check_growth(op: Op, arrays: Arrays, limits: Limits) -> None:
    """Check what an op would make of these arrays where its operands' types do not say.

    Raises:
        LimitError: A result would be larger than a tensor may be.
    """
    if op not in _DEPENDS:
        _DEPENDS[op] = any(None in made.shape for made in _types(op))
    if not _DEPENDS[op] and _as_declared(op, arrays):
        return
    for made in _types(replace(op, inputs=list(_known(op, arrays)))):
        size = Tensor("", made.dtype, made.shape).size_bytes
        if size > limits.tensor_bytes:
            raise LimitError(
                "a tensor is larger than allowed",
                where=f"{op.name} ({op.label})",
                why=f"{size} bytes, the limit is {limits.tensor_bytes}",
                fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
            )


def _as_declared(op: Op, arrays: Arrays) -> bool:
    """Whether no operand has outgrown its shape, as a loop's variables may."""
    pairs = zip(op.inputs, arrays, strict=True)
    return all(t is None or a is None or a.shape == t.shape for t, a in pairs)


def _types(op: Op) -> list[TensorType]:
    """What the record infers; nothing where it refuses, which evaluating will say better."""
    record = get(op)
    try:
        return record.infer(op) if all(rule.holds(op) for rule in record.rules) else []
    except CircletError:
        return []


def _known(op: Op, arrays: Arrays) -> Iterator[Tensor | None]:
    """The operands as constants of these values."""
    for tensor, array in zip(op.inputs, arrays, strict=True):
        if tensor is None or array is None:
            yield None
        else:
            yield replace(tensor, shape=array.shape, default_shape=None, data=array)
