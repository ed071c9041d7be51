"""Masks that put a number in the place of scores are masks that add it."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs
from circlet.ops.arithmetic import AddAttrs

_LOW = -1e30  # scores are too small to change it


def masked_scores(op: Op) -> Tensor | None:
    """The operand that a choice of float scores masks with a very low number; None for others."""
    found = _scores_and_fill(op)
    return None if found is None else found[0]


class Masks:
    """Ops that add masks, in the place of those that choose; each mask is made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Tensor, float, bool], Tensor] = {}

    def as_additions(self, parts: tuple[Op, ...]) -> tuple[tuple[Op, ...], list[Op]]:
        """Parts whose choices are sums, and the new ops that make what is added."""
        added: list[Op] = []
        return tuple(self._as_addition(part, added) for part in parts), added

    def _as_addition(self, op: Op, added: list[Op]) -> Op:
        found = _scores_and_fill(op)
        if found is None:
            return op
        scores, fill = found
        mask = self._mask(op, fill, scores is op.inputs[1], added)
        return Op("ADD", [scores, mask], op.outputs, AddAttrs(), op.origin)

    def _mask(self, op: Op, fill: float, keeps: bool, added: list[Op]) -> Tensor:
        """0 where a score is kept, and what takes its place elsewhere."""
        condition = op.inputs[0]
        assert condition is not None
        key = (condition, fill, keeps)
        if key not in self._made:
            name, low = f"{op.outputs[0].name}/mask", np.float32(fill)
            pair = [np.float32(0), low] if keeps else [low, np.float32(0)]
            if condition.data is not None:
                self._made[key] = constant(name, np.where(condition.data, *pair))
            else:
                self._made[key] = Tensor(name, DType.FLOAT32, condition.shape)
                numbers = [constant(f"{name}/{i}", number) for i, number in enumerate(pair)]
                inputs: list[Tensor | None] = [condition, *numbers]
                outputs = [self._made[key]]
                added.append(Op("SELECT_V2", inputs, outputs, NoAttrs(), op.origin))
        return self._made[key]


def _scores_and_fill(op: Op) -> tuple[Tensor, float] | None:
    if op.kind not in ("SELECT", "SELECT_V2") or op.outputs[0].dtype is not DType.FLOAT32:
        return None
    condition, first, second = op.inputs
    shape = op.outputs[0].shape
    if condition is None or (op.kind == "SELECT" and condition.shape != shape):
        return None
    for scores, other in ((first, second), (second, first)):
        fill = None if other is None else _fill(other)
        if scores is not None and scores.shape == shape and fill is not None:
            return scores, fill
    return None


def _fill(tensor: Tensor) -> float | None:
    """The one very low number that a constant holds, if it does."""
    if tensor.data is None or not tensor.data.size:
        return None
    least, most = float(tensor.data.min()), float(tensor.data.max())
    return least if least == most and least <= _LOW else None
