"""RANDOM_MULTINOMIAL and STATELESS_RANDOM_UNIFORM_EX: numbers that seeds alone decide."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.nnapi.record import nnapi_kind, refuse
from circlet.ops.opdef import Arrays, Cost, Effects, TensorType
from circlet.ops.operands import count, known_ints, moves_bytes, operand, present, when_ranked
from circlet.ops.philox import Philox, uniform
from circlet.ops.random import drawn_classes

_DRAWING = 40  # operations for each number
_SCRAMBLE = 0x02461E293EC8F720  # the key with which TensorFlow mixes stateless seeds
_WORD = 1 << 32


def _multinomial(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Samples from e^logit; two seeds of 0 stand for a generator that nobody can foresee."""
    logits, seeds = present(arrays[0]).astype(np.float32), present(arrays[2]).reshape(-1)
    samples = int(present(arrays[1]).reshape(-1)[0])
    refuse(op, samples >= 0, f"{samples} samples are asked for")
    first, second = (int(seed) for seed in seeds)
    generator = Philox.seeded(first, second) if first or second else Philox.unseeded()
    return [drawn_classes(logits, samples, generator, np.int32)]


def _multinomial_types(op: Op) -> list[TensorType]:
    samples = known_ints(op.input(1))
    drawn = None if samples is None else samples[0]
    return [TensorType(DType.INT32, (operand(op, 0).shape[0], drawn))]


def _multinomial_fits(op: Op) -> bool:
    logits, samples, seeds = (operand(op, index).shape for index in range(3))
    one, two = count(samples) in (1, None), count(seeds) in (2, None)
    return len(logits) == 2 and logits[1] != 0 and one and two


def _mixed(seeds: np.ndarray) -> Philox:
    """The generator of two seeds, as TensorFlow's stateless kinds mix them."""
    first, second = (int(seed) % (1 << 64) for seed in seeds.reshape(-1))
    words = [int(word) for word in Philox(first | second << 64, _SCRAMBLE).draw(1).reshape(-1)]
    return Philox((words[2] | words[3] * _WORD) << 64, words[0] | words[1] * _WORD)


def _uniform(op: Op, arrays: Arrays) -> list[np.ndarray]:
    sizes = [int(size) for size in present(arrays[0]).reshape(-1)]
    refuse(op, min(sizes, default=0) >= 0, f"the sizes are {sizes}")
    drawn = prod(sizes)
    made = uniform(_mixed(present(arrays[1])).draw(-(-drawn // 4)))
    return [made.reshape(-1)[:drawn].reshape(sizes)]


def _uniform_types(op: Op) -> list[TensorType]:
    sizes, (rank,) = known_ints(op.input(0)), operand(op, 0).shape
    unknown = op.outputs[0].shape if rank is None else (None,) * rank
    return [TensorType(DType.FLOAT32, unknown if sizes is None else sizes)]


def _uniform_fits(op: Op) -> bool:
    return len(operand(op, 0).shape) == 1 and count(operand(op, 1).shape) in (2, None)


def _cost(op: Op) -> Cost:
    return moves_bytes(op)._replace(arithmetic=_DRAWING * op.outputs[0].elements)


def _multinomial_cost(op: Op) -> Cost:
    drawn, logits = op.outputs[0].elements, operand(op, 0)
    searched = drawn * max(logits.elements, 1).bit_length()
    return _cost(op)._replace(operations=16 * logits.elements + searched)


nnapi_kind(
    "RANDOM_MULTINOMIAL",
    _multinomial,
    _multinomial_types,
    _multinomial_cost,
    inputs=(3, 3),
    dtypes=("FLOAT32 INT32 INT32 -> INT32",),
    rules=(when_ranked("sizes", _multinomial_fits, "it needs rows of logits, and two seeds"),),
    effects=Effects.DRAWS_NUMBERS,
)
nnapi_kind(
    "STATELESS_RANDOM_UNIFORM_EX",
    _uniform,
    _uniform_types,
    _cost,
    inputs=(2, 2),
    dtypes=("INT32 INT32 -> FLOAT32",),
    rules=(when_ranked("sizes", _uniform_fits, "it needs a list of sizes, and two seeds"),),
    numerics="exact",
)
