"""What an op takes of memory when numpy evaluates it, before it takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from weakref import WeakKeyDictionary

from circlet.errors import CircletError, LimitError
from circlet.ir import Op, Tensor
from circlet.limits import Limits
from circlet.ops.opdef import Arrays, Effects, OpDef, TensorType, get
from circlet.ops.operands import QUANTISED

# What numpy holds at once beside operands and results, in bytes for each element of the largest:
# the most that records were measured to take.
_MOVED, _REAL, _STEPS, _EXACT_STEPS, _WEIGHTS = 4, 16, 64, 88, 8
_ASKING = frozenset({"RANK", "SHAPE"})
_RESAMPLING = frozenset({"AVERAGE_POOL_2D", "L2_POOL_2D", "RESIZE_BILINEAR"})

# Of ops whose operands say all; None for those whose results depend on data.
_NEEDED: WeakKeyDictionary[Op, int | None] = WeakKeyDictionary()


def needed_bytes(op: Op, arrays: Arrays, limits: Limits) -> int:
    """What an op takes on these arrays: its results, and what computing them needs besides.

    Raises:
        LimitError: A result would be larger than a tensor may be.
    """
    if op not in _NEEDED:
        types = _types(op)
        depends = any(None in made.shape for made in types)
        _NEEDED[op] = None if depends else _total(op, types)
    needed = _NEEDED[op]
    if needed is not None and _as_declared(op, arrays):
        return needed
    types = _types(replace(op, inputs=list(_known(op, arrays))))
    for made in types:
        size = Tensor("", made.dtype, made.shape).size_bytes
        if size > limits.tensor_bytes:
            raise LimitError(
                "a tensor is larger than allowed",
                where=f"{op.name} ({op.label})",
                why=f"{size} bytes, the limit is {limits.tensor_bytes}",
                fix="raise `tensor_bytes` of circlet.limits.Limits if this is meant",
            )
    given = max((array.size for array in arrays if array is not None), default=0)
    return _total(op, types, given)


def folding_bytes(op: Op) -> int:
    """What an op over constants takes whose results have the types that it declares."""
    types = [TensorType(tensor.dtype, tensor.shape) for tensor in op.outputs]
    read = (tensor.elements for tensor in op.inputs if tensor is not None)
    return _total(op, types, max(read, default=0))


def _total(op: Op, types: list[TensorType], given: int | None = None) -> int:
    """Bytes of results and temporaries, for operands of at most `given` elements."""
    results = [Tensor("", made.dtype, made.shape) for made in types]
    if given is None:
        read = (t.elements for t in op.inputs if t is not None and not t.is_constant)
        given = max(read, default=0)
    largest = max([given, *(tensor.elements for tensor in results)])
    made = sum(tensor.size_bytes for tensor in results)
    return made + largest * _beside(op, get(op)) + _WEIGHTS * _whole_weights(op)


def _whole_weights(op: Op) -> int:
    """How many weights an op has that are multiplied as floating point numbers, being whole."""
    if not get(op).cost(op).computing:
        return 0
    constants = (t for t in op.inputs if t is not None and t.is_constant and t.dtype in QUANTISED)
    return sum(tensor.elements for tensor in constants)


def _beside(op: Op, record: OpDef) -> int:
    """Bytes that evaluating needs for each element, besides operands and results."""
    if record.effects is not Effects.NONE or op.regions:
        return 0  # the ops of its graphs are charged one by one
    if record.view is not None or op.kind in _ASKING:
        return 0
    if record.quant.same_as_input and op.kind not in _RESAMPLING:
        return _MOVED
    if record.scalar is not None and any(map(_has_steps, (*op.inputs, *op.outputs))):
        return _EXACT_STEPS
    return _STEPS if any(map(_has_steps, op.outputs)) else _REAL


def _has_steps(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype in QUANTISED and tensor.quant is not None


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
