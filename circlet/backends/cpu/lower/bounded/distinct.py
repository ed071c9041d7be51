"""Distinct elements of lists that a run counts: `bounded_unique.h`."""

from __future__ import annotations

from circlet.backends.cpu.lower.bounded.counts import ref_or_none
from circlet.backends.cpu.lower.copy import element_bytes, not_copyable
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.bounded import COUNTS, FIRST, INVERSE, UNIQUE, DistinctAttrs
from circlet.ops.operands import operand
from circlet.target.targets import Target

_MOST = 1 << 30
_SLOT_BYTES, _LEAST_SLOTS = 4, 2  # of the hash table
_PLACE_BYTES, _LEAST_KEY, _LISTS = 4, 4, 2  # of what is sorted


def _refuses(op: Op, target: Target) -> str | None:
    given = operand(op, 0)
    if given.elements >= _MOST:
        return f"lists of {_MOST} elements and more"
    if not (given.dtype.is_integer or given.dtype in (DType.FLOAT32, DType.BOOL)):
        return f"does not take {given.dtype.name}"
    return not_copyable(op.outputs[0])


def _kind(dtype: DType) -> str:
    if dtype is DType.FLOAT32:
        return "UNIQUE_FLOAT"
    return "UNIQUE_SIGNED" if dtype.name.startswith("INT") else "UNIQUE_UNSIGNED"


def _scratch(given: Tensor, attrs: DistinctAttrs) -> int:
    """Bytes of two lists to sort, or of a hash table."""
    if attrs.is_rising:
        key = max(element_bytes(given), _LEAST_KEY)
        return _LISTS * given.elements * (key + _PLACE_BYTES)
    return _SLOT_BYTES * max(_LEAST_SLOTS, 1 << (2 * given.elements - 1).bit_length())


def _lower(op: Op, context: Context) -> None:
    given, attrs = operand(op, 0), op.attributes(DistinctAttrs)
    values, *told, found = op.outputs
    named = dict(zip(attrs.results, told, strict=True))
    lists: list[Ref] = [
        TensorRef(named[name]) if name in named else NoRef() for name in (FIRST, INVERSE, COUNTS)
    ]
    sources = [ref_or_none(context, tensor) for tensor in op.inputs]
    operands = [*sources, TensorRef(values), *lists, TensorRef(found), StopRef()]
    params: dict[str, ParamValue] = {"elements": given.elements}
    size = element_bytes(given)
    arguments = (size, _kind(given.dtype), element_bytes(told[0]) if told else 8)
    name = "bounded_unique_rising" if attrs.is_rising else "bounded_unique"
    kernel = Kernel("bounded_unique.h", name, arguments)
    scratch = _scratch(given, attrs)
    context.call(op, kernel, params, operands, op.outputs, scratch_bytes=scratch)


LOWERINGS.add(Lowering(UNIQUE, "bounded_unique", _refuses, _lower))
