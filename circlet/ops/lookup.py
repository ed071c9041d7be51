"""Tables of keys and values: HASHTABLE_FIND, HASHTABLE_SIZE, HASHTABLE_LOOKUP.

Files name hash tables by resource handles; `passes.resolve_tables` gives the operators the keys and
values that such a table is filled with. Only that form can be run.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes, register
from circlet.ops.operands import infer_ranked, operand, present, when_ranked

_PLACES: WeakKeyDictionary[Tensor, dict[object, int]] = WeakKeyDictionary()


def _places(keys: Tensor, elements: np.ndarray) -> dict[object, int]:
    """Where each key of a table stands; the first of equal ones counts."""
    known = _PLACES.get(keys)
    if known is None:
        known = {}
        for index, key in enumerate(elements.reshape(-1).tolist()):
            known.setdefault(key, index)
        _PLACES[keys] = known
    return known


def _is_table(op: Op) -> bool:
    tensors = [op.input(0), op.input(3)] if op.kind == "HASHTABLE_FIND" else [op.input(0)]
    return all(t is not None and t.is_constant for t in tensors)


_TABLE = Rule(
    "table", _is_table, "the handle is not of a table that constants fill once", sized=False
)


def _infer_find(op: Op) -> list[TensorType]:
    return [TensorType(operand(op, 3).dtype, operand(op, 1).shape)]


def _evaluate_find(op: Op, inputs: Arrays) -> list[np.ndarray]:
    keys, query, default, values = map(present, inputs)
    places = _places(operand(op, 0), keys)
    result = np.empty(query.shape, values.dtype)
    stored, missing, found = values.reshape(-1), default.reshape(-1)[0], result.reshape(-1)
    for index, key in enumerate(query.reshape(-1).tolist()):
        place = places.get(key)
        found[index] = missing if place is None else stored[place]
    return [result]


register(
    OpDef(
        kind="HASHTABLE_FIND",
        arity=(4, 4),
        required=4,
        dtypes=("STRING STRING INT64 INT64 -> INT64", "INT64 INT64 STRING STRING -> STRING"),
        infer=_infer_find,
        evaluate=_evaluate_find,
        rules=(
            _TABLE,
            Rule(
                "table-sizes",
                lambda op: operand(op, 0).static_shape == operand(op, 3).static_shape,
                "there are not as many values as keys",
                sized=False,
            ),
            when_ranked("default", lambda op: operand(op, 2).shape != (0,), "no default is given"),
        ),
    )
)


def _evaluate_size(op: Op, inputs: Arrays) -> list[np.ndarray]:
    return [np.array([len(_places(operand(op, 0), present(inputs[0])))], np.int64)]


register(
    OpDef(
        kind="HASHTABLE_SIZE",
        arity=(1, 1),
        dtypes=("STRING -> INT64", "INT64 -> INT64"),
        infer=lambda op: [TensorType(DType.INT64, (1,))],
        evaluate=_evaluate_size,
        rules=(_TABLE,),
    )
)


def _infer_lookup(op: Op) -> list[TensorType]:
    count, values = operand(op, 0).shape, operand(op, 2)
    return [
        TensorType(values.dtype, (*count, *values.shape[1:])),
        TensorType(DType.UINT8, count),
    ]


def _lookup_sizes(op: Op) -> bool:
    ids, keys, values = (operand(op, index) for index in range(3))
    if len(ids.shape) != 1 or len(keys.shape) != 1 or not values.shape:
        return False
    if values.dtype is DType.STRING and len(values.shape) != 1:
        return False
    return keys.shape == values.shape[:1] and keys.shape != (0,)


def _search(ids: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The place of each id among keys, -1 for none, by halving as the C library does it."""
    low, high = np.zeros(ids.shape, np.int64), np.full(ids.shape, len(keys), np.int64)
    places = np.full(ids.shape, -1, np.int64)
    while (low < high).any():
        middle = np.minimum((low + high) // 2, len(keys) - 1)
        key, searching = keys[middle], low < high
        places = np.where(searching & (ids == key), middle, places)
        high = np.where(searching & (ids <= key), middle, high)
        low = np.where(searching & (ids > key), middle + 1, low)
        low = np.where(places >= 0, high, low)
    return places


def _evaluate_lookup(op: Op, inputs: Arrays) -> list[np.ndarray]:
    ids, keys, values = map(present, inputs)
    places = _search(ids, keys)
    result = values[np.maximum(places, 0)]
    result[places < 0] = b"" if operand(op, 2).dtype is DType.STRING else 0
    return [result, (places >= 0).astype(np.uint8)]


def _lookup_cost(op: Op) -> Cost:
    searched = operand(op, 1).elements.bit_length() * operand(op, 0).elements
    return moves_bytes(op)._replace(operations=searched)


register(
    OpDef(
        kind="HASHTABLE_LOOKUP",
        arity=(3, 3),
        outputs=2,
        required=3,
        dtypes=("INT32 INT32 * -> *",),
        infer=infer_ranked(_infer_lookup),
        evaluate=_evaluate_lookup,
        rules=(
            when_ranked(
                "sizes", _lookup_sizes, "ids and keys must be lists, with a value for each key"
            ),
        ),
        cost=_lookup_cost,
    )
)
