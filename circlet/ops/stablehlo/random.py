"""STABLEHLO_RNG_BIT_GENERATOR: Threefry 2x32 and Philox 4x32, counted from a state.

Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.checks import one_of
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType
from circlet.ops.operands import operand, present
from circlet.ops.stablehlo.types import (
    define,
    is_static,
)

_PARITY = np.uint32(0x1BD11BDA)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = np.uint64(32)


@dataclass(frozen=True)
class RngAttrs:
    """Which generator; DEFAULT is PHILOX."""

    algorithm: str = "DEFAULT"


def _counters(low: int, high: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Both words of a counter and of those that follow it."""
    start = np.uint64(low | high << 32)
    with np.errstate(over="ignore"):
        numbers = start + np.arange(count, dtype=np.uint64)
    return numbers.astype(np.uint32), (numbers >> _WORD).astype(np.uint32)


def _threefry(key: tuple[int, int], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two words for each counter."""
    keys = [np.uint32(key[0]), np.uint32(key[1])]
    keys.append(keys[0] ^ keys[1] ^ _PARITY)
    a, b = low + keys[0], high + keys[1]
    for turn in range(5):
        for bits in _ROTATIONS[turn % 2]:
            a = a + b
            b = (b << np.uint32(bits)) | (b >> np.uint32(32 - bits))
            b = b ^ a
        a = a + keys[(turn + 1) % 3]
        b = b + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return np.stack([a, b], axis=1)


def _philox(
    key: tuple[int, int], low: np.ndarray, high: np.ndarray, rest: tuple[int, int]
) -> np.ndarray:
    """Four words for each counter, whose upper two words are fixed."""
    words = [low, high, *(np.full(len(low), word, np.uint32) for word in rest)]
    for turn in range(_ROUNDS):
        keys = [np.uint32((k + turn * w) & 0xFFFFFFFF) for k, w in zip(key, _WEYL, strict=True)]
        first = _MULTIPLIERS[0] * words[0].astype(np.uint64)
        second = _MULTIPLIERS[1] * words[2].astype(np.uint64)
        words = [
            (second >> _WORD).astype(np.uint32) ^ words[1] ^ keys[0],
            second.astype(np.uint32),
            (first >> _WORD).astype(np.uint32) ^ words[3] ^ keys[1],
            first.astype(np.uint32),
        ]
    return np.stack(words, axis=1)


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    state, result = present(inputs[0]), op.outputs[1]
    words = [int(word) for word in state.astype("<u8").view("<u4")]
    is_threefry = op.attributes(RngAttrs).algorithm == "THREEFRY"
    if len(words) not in ((4,) if is_threefry else (4, 6)):
        raise GraphError("the state of a generator has another size", where=op.name)
    needed, width = result.elements * result.dtype.bits // 32, 2 if is_threefry else 4
    count = -(-needed // width)
    low, high = _counters(words[2], words[3], count)
    key = (words[0], words[1])
    with np.errstate(over="ignore"):
        rest = (words[-2], words[-1]) if len(words) == 6 else key
        made = _threefry(key, low, high) if is_threefry else _philox(key, low, high, rest)
    bits = made.reshape(-1)[:needed].astype("<u4").tobytes()
    values = np.frombuffer(bits, result.dtype.numpy).reshape(result.static_shape)
    after = state.copy()
    after[1] = (int(state[1]) + count) % (1 << 64)
    return [after, values.copy()]


def _state_fits(op: Op) -> bool:
    allowed = (2,) if op.attributes(RngAttrs).algorithm == "THREEFRY" else (2, 3)
    shape = operand(op, 0).shape
    return len(shape) == 1 and shape[0] in allowed


def _cost(op: Op) -> Cost:
    """Twenty rounds of a few operations for each word or two."""
    return Cost(bytes=op.outputs[1].size_bytes, operations=op.outputs[1].elements * 128)


_DTYPES = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT64})

define(
    OpDef(
        kind="STABLEHLO_RNG_BIT_GENERATOR",
        attrs=RngAttrs,
        arity=(1, 1),
        outputs=2,
        dtypes=("UINT64 -> UINT64",),
        infer=lambda op: [
            TensorType(DType.UINT64, operand(op, 0).shape),
            TensorType(op.outputs[1].dtype, op.outputs[1].shape),
        ],
        evaluate=_evaluate,
        rules=(
            one_of("algorithm", ("DEFAULT", "PHILOX", "THREEFRY")),
            Rule("state", _state_fits, "the state must hold 2 numbers, of PHILOX 2 or 3"),
            Rule(
                "result-type",
                lambda op: op.outputs[1].dtype in _DTYPES,
                "the bits must be whole numbers of 32 or 64 bits",
            ),
            Rule(
                "result-sizes",
                lambda op: is_static(op.outputs[1].shape),
                "the result's sizes must be known",
            ),
        ),
        cost=_cost,
    )
)
