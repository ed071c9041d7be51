"""What records of the Signal library share: how they are registered, and the state they keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand
from circlet.ops.state import initial_value
from circlet.words import counted

Evaluate = Callable[[Op, Arrays], list[np.ndarray]]
Infer = Callable[[Op], list[TensorType]]
States = Callable[[Op], list[Tensor]]


def signal_kind(
    kind: str,
    attrs: type,
    dtypes: Sequence[str],
    infer: Infer,
    evaluate: Evaluate,
    *,
    inputs: int = 1,
    outputs: int = 1,
    rules: Sequence[Rule] = (),
    states: States | None = None,
    state_count: int = 0,
    cost: Callable[[Op], Cost] = moves_bytes,
) -> OpDef:
    """Register `Signal<kind>`; states come behind the inputs that files give."""
    own = (_states_fit(inputs, states),) if states is not None else ()
    return register(
        OpDef(
            kind=f"CUSTOM:Signal{kind}",
            attrs=attrs,
            arity=(inputs, inputs + state_count),
            required=inputs,
            outputs=outputs,
            dtypes=tuple(dtypes),
            infer=infer,
            evaluate=evaluate,
            rules=(*rules, *own),
            states=states,
            updates=tuple(range(inputs, inputs + state_count)),
            cost=cost,
        )
    )


def kept(arrays: Arrays, states: Sequence[Tensor]) -> list[np.ndarray]:
    """What an op of one input kept from the run before, or starts with where no state is given."""
    given = arrays[1:] or [None] * len(states)
    return [
        initial_value(state) if array is None else array
        for state, array in zip(states, given, strict=True)
    ]


def with_states(
    op: Op, results: list[np.ndarray], states: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The results of an op of one input, and its new states where it was given some."""
    return [*results, *states] if len(op.inputs) > 1 else results


def state(op: Op, name: str, dtype: DType, shape: tuple[int, ...], start: int = 0) -> Tensor:
    """A variable that an op keeps, which holds `start` before the first run."""
    initial = np.full(shape, start, dtype.numpy) if start else None
    return Tensor(f"{op.name}/{name}", dtype, shape, is_variable=True, initial=initial)


def _states_fit(inputs: int, states: States) -> Rule:
    def holds(op: Op) -> bool:
        given = op.inputs[inputs:]
        if not given:
            return True
        wanted = states(op)
        return len(given) == len(wanted) and all(
            tensor is not None
            and tensor.is_variable
            and (tensor.dtype, tensor.static_shape) == (own.dtype, own.static_shape)
            for tensor, own in zip(given, wanted, strict=True)
        )

    return Rule("state", holds, "its state has another type or size than it needs")


def rank_is(rank: int, *indices: int) -> Rule:
    """Rule: the named inputs have exactly `rank` dimensions."""
    return Rule(
        "ranks",
        lambda op: all(len(operand(op, index).shape) == rank for index in indices),
        f"input {', '.join(map(str, indices))} must have {counted(rank, 'dimension')}",
        sized=False,
    )


def size_at_least(index: int, size: Callable[[Op], int], message: str) -> Rule:
    """Rule: input `index` has at least so many elements, where they can be counted."""

    def holds(op: Op) -> bool:
        tensor = operand(op, index)
        return None in tensor.shape or tensor.elements >= size(op)

    return Rule(f"size_{index}", holds, message)


def rows_of(tensor: Tensor, inner: int = 1) -> int:
    """How many rows a tensor has whose last `inner` dimensions are one row."""
    return prod(tensor.static_shape[:-inner])
