"""RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL and MULTINOMIAL, by TensorFlow's generator.

A generator that starts at a seed goes on from run to run: `passes.seed_generators` adds a variable
tensor that holds its state. Without seeds every run draws other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ops.opdef import (
    Arrays,
    Cost,
    Effects,
    OpDef,
    Rule,
    TensorType,
    moves_bytes,
    register,
)
from circlet.ops.operands import infer_ranked, known_ints, operand, present, when_ranked
from circlet.ops.philox import STATE_SIZE, Philox, Reals, Words, normal, uniform, uniform_doubles

_DRAWING = 40  # operations for each number
_SKIPPED = 2 * 256  # blocks for each sample of MULTINOMIAL, whatever it needs


@dataclass(frozen=True)
class RandomAttrs:
    """Seeds of the generator, of which 32 bits count; where both are 0, no numbers come twice."""

    seed: int = 0
    seed2: int = 0

    @property
    def generator(self) -> Philox | None:
        """The generator at its start; None where no seed says which."""
        seeds = [_signed(seed) for seed in (self.seed, self.seed2)]
        return Philox.seeded(*seeds) if any(seeds) else None


def _signed(seed: int) -> int:
    """The lower 32 bits, with their sign, which is what LiteRT's parser keeps."""
    return (seed + (1 << 31)) % (1 << 32) - (1 << 31)


# Kinds, and at which place the state of a seeded generator stands among their operands.
STATE_PLACES = {"RANDOM_UNIFORM": 1, "RANDOM_STANDARD_NORMAL": 1, "MULTINOMIAL": 2}


def state_variable(name: str, generator: Philox) -> Tensor:
    """The variable that holds where the generator of an op of this name is, which starts there."""
    state = Tensor(f"{name} state", DType.UINT32, (STATE_SIZE,), is_variable=True)
    state.initial = generator.state()
    return state


def _has_state(op: Op) -> bool:
    state = op.input(STATE_PLACES[op.kind])
    if state is None:
        return op.attributes(RandomAttrs).generator is None
    return state.is_variable and state.dtype is DType.UINT32 and state.shape == (STATE_SIZE,)


_STATE = Rule(
    "state",
    _has_state,
    "a generator with seeds is not run inside of branches and loops",
    sized=False,
)


def _generator(op: Op, inputs: Arrays) -> Philox:
    place = STATE_PLACES[op.kind]
    state = inputs[place] if len(inputs) > place else None
    return Philox.unseeded() if state is None else Philox.of_state(state)


def _results(op: Op, made: np.ndarray, generator: Philox) -> list[np.ndarray]:
    """The output, and where the generator is then."""
    updated = op.input(STATE_PLACES[op.kind]) is not None
    return [made, generator.state()] if updated else [made]


def _infer_sizes(op: Op) -> list[TensorType]:
    sizes, (rank,) = known_ints(op.input(0)), operand(op, 0).shape
    unknown = op.outputs[0].shape if rank is None else (None,) * rank
    return [TensorType(DType.FLOAT32, unknown if sizes is None else sizes)]


def _sizes_hold(op: Op) -> bool:
    return min(known_ints(op.input(0)) or (), default=0) >= 0


def _draw(op: Op, inputs: Arrays, numbers: Callable[[Words], Reals]) -> list[np.ndarray]:
    sizes = [int(size) for size in present(inputs[0])]
    if min(sizes, default=0) < 0:
        raise GraphError("a size is negative", where=op.name, why=f"sizes {sizes}")
    count, generator = prod(sizes), _generator(op, inputs)
    made = numbers(generator.draw(-(-count // 4))).reshape(-1)[:count]
    return _results(op, made.reshape(sizes), generator)


def _cost(op: Op) -> Cost:
    drawn = _DRAWING * op.outputs[0].elements
    return moves_bytes(op)._replace(arithmetic=drawn)


def _register_sized(kind: str, numbers: Callable[[Words], Reals]) -> None:
    register(
        OpDef(
            kind=kind,
            attrs=RandomAttrs,
            arity=(1, 2),
            dtypes=("INT32 UINT32 -> FLOAT32",),
            infer=infer_ranked(_infer_sizes),
            evaluate=lambda op, inputs: _draw(op, inputs, numbers),
            effects=Effects.DRAWS_NUMBERS,
            updates=(STATE_PLACES[kind],),
            rules=(
                when_ranked(
                    "list", lambda op: len(operand(op, 0).shape) == 1, "the sizes must be a list"
                ),
                Rule("sizes", _sizes_hold, "a size is negative", sized=False),
                _STATE,
            ),
            cost=_cost,
            numerics="exact" if kind == "RANDOM_UNIFORM" else "tolerance",
        )
    )


_register_sized("RANDOM_UNIFORM", uniform)
_register_sized("RANDOM_STANDARD_NORMAL", normal)


def _infer_multinomial(op: Op) -> list[TensorType]:
    counts = known_ints(op.input(1))
    drawn = None if counts is None else counts[0]
    return [TensorType(op.outputs[0].dtype, (operand(op, 0).shape[0], drawn))]


def _multinomial_fits(op: Op) -> bool:
    logits, number = operand(op, 0), operand(op, 1)
    return len(logits.shape) == 2 and logits.shape[1] != 0 and number.shape == ()


def _count_holds(op: Op) -> bool:
    return min(known_ints(op.input(1)) or (), default=0) >= 0


def _evaluate_multinomial(op: Op, inputs: Arrays) -> list[np.ndarray]:
    logits, count = present(inputs[0]), int(present(inputs[1]))
    if count < 0:
        raise GraphError("a number of samples is negative", where=op.name, why=str(count))
    generator = _generator(op, inputs)
    made = drawn_classes(logits, count, generator, op.outputs[0].dtype.numpy)
    generator.skip(len(logits) * (-(-count // 4) * 4) * _SKIPPED)
    return _results(op, made, generator)


def drawn_classes(
    logits: np.ndarray, count: int, generator: Philox, dtype: npt.DTypeLike
) -> np.ndarray:
    """Classes drawn from rows of logits, [rows, count]; the generator stays where it is."""
    rows = len(logits)
    words = Philox(generator.counter, generator.key).draw(-(-rows * count // 2))
    places = uniform_doubles(words.reshape(-1, 2)[: rows * count]).reshape(rows, count)
    made = np.empty((rows, count), dtype)
    for row, (values, place) in enumerate(zip(logits, places, strict=True)):
        sums = _cumulative(values)
        made[row] = np.searchsorted(sums, place * sums[-1], side="right")
    return made


def _cumulative(logits: np.ndarray) -> np.ndarray:
    """Sums of e^logit up to each class; logits that are not finite have no part in them."""
    finite = np.isfinite(logits)
    most = float(logits[finite].max(initial=np.finfo(np.float32).min))
    powers = np.exp(np.where(finite, logits.astype(np.float64) - most, -np.inf))
    return np.asarray(np.add.accumulate(powers))


register(
    OpDef(
        kind="MULTINOMIAL",
        attrs=RandomAttrs,
        arity=(2, 3),
        required=2,
        dtypes=("FLOAT32 INT32 UINT32 -> INT64", "FLOAT32 INT32 UINT32 -> INT32"),
        infer=infer_ranked(_infer_multinomial),
        evaluate=_evaluate_multinomial,
        effects=Effects.DRAWS_NUMBERS,
        updates=(STATE_PLACES["MULTINOMIAL"],),
        rules=(
            when_ranked("sizes", _multinomial_fits, "it needs rows of logits and one number"),
            Rule("count", _count_holds, "the number of samples is negative", sized=False),
            _STATE,
        ),
        cost=_cost,
    )
)
