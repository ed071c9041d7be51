"""LSH_PROJECTION: bits that tell on which side of hashed planes an input lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.farmhash import fingerprints
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes, register
from circlet.ops.operands import infer_ranked, operand, present, when_ranked
from circlet.ops.strings import pack_strings

_HASHING = 16  # operations for each byte that is hashed


@dataclass(frozen=True)
class LshProjectionAttrs:
    """Whether the bits of one hash function are one number, "SPARSE", or so many, "DENSE"."""

    type: str = "UNKNOWN"


def _infer(op: Op) -> list[TensorType]:
    functions, bits = operand(op, 0).shape
    if op.attributes(LshProjectionAttrs).type == "SPARSE":
        return [TensorType(DType.INT32, (functions,))]
    count = None if functions is None or bits is None else functions * bits
    return [TensorType(DType.INT32, (count,))]


def _fits(op: Op) -> bool:
    seeds, items, weights = operand(op, 0), operand(op, 1), op.input(2)
    if len(seeds.shape) != 2 or not items.shape or items.shape[0] == 0:
        return False
    if weights is not None and (len(weights.shape) != 1 or weights.shape[0] != items.shape[0]):
        return False
    return seeds.shape[1] is None or seeds.shape[1] <= 32


def _items(op: Op, array: np.ndarray) -> np.ndarray:
    """The bytes of each element along the first axis, as they lie in memory."""
    if operand(op, 1).dtype is DType.STRING:
        raw = np.frombuffer(pack_strings(array), np.uint8)
        size = raw.size // len(array)
        return raw[: size * len(array)].reshape(len(array), size)
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """The sign of a sum of hashes, which are taken in order and in double, as LiteRT has it."""
    seeds, items = present(inputs[0]).astype(np.float32), _items(op, present(inputs[1]))
    weights = inputs[2] if len(inputs) > 2 else None
    keys = np.concatenate([np.zeros((len(items), 4), np.uint8), items], axis=1)
    bits = np.zeros(seeds.shape, np.int64)
    for place, seed in np.ndenumerate(seeds):
        keys[:, :4] = np.frombuffer(seed.tobytes(), np.uint8)
        terms = fingerprints(keys).view(np.int64).astype(np.float64)
        terms = terms if weights is None else weights.astype(np.float64) * terms
        bits[place] = np.add.accumulate(terms)[-1] > 0
    if op.attributes(LshProjectionAttrs).type == "DENSE":
        return [bits.reshape(-1).astype(np.int32)]
    functions, count = seeds.shape[0], seeds.shape[1]
    values = (bits << np.arange(count)[::-1]).sum(axis=1) + np.arange(functions) * (1 << count)
    return [values.astype(np.uint64).astype(np.uint32).view(np.int32)]


def _cost(op: Op) -> Cost:
    seeds, items = operand(op, 0), operand(op, 1)
    size = max(items.size_bytes, items.elements * 64 if items.dtype is DType.STRING else 0)
    hashed = seeds.elements * (size + 4 * items.elements)
    return moves_bytes(op)._replace(operations=_HASHING * hashed)


register(
    OpDef(
        kind="LSH_PROJECTION",
        attrs=LshProjectionAttrs,
        arity=(2, 3),
        required=2,
        dtypes=("FLOAT32 * FLOAT32 -> INT32",),
        infer=infer_ranked(_infer),
        evaluate=_evaluate,
        rules=(
            Rule(
                "type",
                lambda op: op.attributes(LshProjectionAttrs).type in ("SPARSE", "DENSE"),
                "the projection must be SPARSE or DENSE",
                sized=False,
            ),
            when_ranked(
                "sizes",
                _fits,
                "it needs a table of at most 32 seeds a row, items, and a weight each",
            ),
        ),
        cost=_cost,
    )
)
