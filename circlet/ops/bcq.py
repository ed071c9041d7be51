"""BCQ_FULLY_CONNECTED and BCQ_GATHER of Circle files: weights are sums of scaled signs.

A row of weights is `scale[0] * signs[0] + scale[1] * signs[1] + ..`: as many terms as its cluster
of rows has bits. Clusters follow each other in the packed signs and the scales; in a cluster the
first term of each row comes first, then the second of each. 32 signs make a number, the first in
the lowest bit, where a bit that is set stands for +1 and another for -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ir import Op, Tensor
from circlet.ops import checks
from circlet.ops.decomposition import Parts
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.gather import GatherAttrs
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import known_ints, moves_bytes, operand, present
from circlet.ops.requantize import activate_float, activation_of

Floats = npt.NDArray[np.float32]
_WORD = 32
_MOST_BITS = 32
_PART_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class BcqFullyConnectedAttrs:
    """Length of a row of weights, and the activation."""

    weights_hidden_size: int = 0
    activation: str = "NONE"


@dataclass(frozen=True)
class BcqGatherAttrs:
    """Length of a row, and the axis to pick from: 0 for rows, 1 for elements of each."""

    input_hidden_size: int = 0
    axis: int = 0


@dataclass(frozen=True)
class _Packed:
    """Where the operands of an op stand that hold weights, and the length of a row."""

    scales: int
    signs: int
    clusters: int
    hidden: int


def _packed(op: Op) -> _Packed:
    if isinstance(op.attrs, BcqFullyConnectedAttrs):
        return _Packed(1, 2, 4, op.attrs.weights_hidden_size)
    return _Packed(0, 1, 3, op.attributes(BcqGatherAttrs).input_hidden_size)


def _clusters(op: Op) -> list[tuple[int, int]]:
    """Bits and number of rows of each cluster."""
    numbers = known_ints(op.input(_packed(op).clusters)) or ()
    return list(zip(numbers[::2], numbers[1::2], strict=False))


def _row_count(op: Op) -> int:
    return sum(rows for _, rows in _clusters(op))


def _rows(op: Op) -> Iterator[Floats]:
    """The rows of weights, some at a time."""
    packed = _packed(op)
    scales = np.asarray(operand(op, packed.scales).data, np.float32).reshape(-1)
    stored = np.asarray(operand(op, packed.signs).data, np.int32)
    words, at = stored.reshape(scales.size, -1), 0
    step = max(1, _PART_ELEMENTS // max(1, packed.hidden))
    for bits, rows in _clusters(op):
        terms = range(at, at + bits * rows, rows)
        for first in range(0, rows, step):
            count = min(step, rows - first)
            total = np.zeros((count, packed.hidden), np.float32)
            for term in terms:
                part = slice(term + first, term + first + count)
                total += scales[part, None] * _signs(words[part], packed.hidden)
            yield total
        at += bits * rows


def _signs(words: npt.NDArray[np.int32], count: int) -> Floats:
    """So many signs of each row, +1 and -1."""
    raw = np.ascontiguousarray(words, "<i4").view(np.uint8)
    bits = np.unpackbits(raw, axis=1, count=count, bitorder="little")
    return bits.astype(np.float32) * 2 - 1


def _weights(op: Op) -> Floats:
    """All rows of weights."""
    whole = np.empty((_row_count(op), _packed(op).hidden), np.float32)
    at = 0
    for rows in _rows(op):
        whole[at : at + len(rows)] = rows
        at += len(rows)
    return whole


def _evaluate_product(op: Op, arrays: Arrays) -> list[np.ndarray]:
    columns = present(arrays[0])
    total = np.concatenate([rows @ columns for rows in _rows(op)])
    if arrays[3] is not None:
        total = total + arrays[3].reshape(-1, 1)
    return [activate_float(total.astype(np.float32), activation_of(op))]


def _decompose_product(op: Op) -> list[Op]:
    """Weights times columns, as rows times weights."""
    parts, swap = Parts(op), np.array([1, 0], np.int32)
    rows = parts.make("TRANSPOSE", [operand(op, 0), parts.constant(swap)])
    attrs = FullyConnectedAttrs(activation_of(op))
    made = parts.make("FULLY_CONNECTED", [rows, parts.constant(_weights(op)), op.input(3)], attrs)
    parts.make("TRANSPOSE", [made, parts.constant(swap)], result=op.outputs[0])
    return parts.ops


def _infer_product(op: Op) -> list[TensorType]:
    columns = operand(op, 0)
    return [TensorType(columns.dtype, (_row_count(op), columns.shape[1]))]


def _picked_size(op: Op) -> int:
    return _row_count(op) if op.attributes(BcqGatherAttrs).axis == 0 else _packed(op).hidden


def _evaluate_gather(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Indices are taken to the nearest existing row or element, as GATHER's."""
    indices = np.clip(present(arrays[2]), 0, _picked_size(op) - 1)
    if op.attributes(BcqGatherAttrs).axis == 1:
        return [np.concatenate([rows.take(indices, 1) for rows in _rows(op)])]
    picked, at = np.empty((*indices.shape, _packed(op).hidden), np.float32), 0
    for rows in _rows(op):
        here = (at <= indices) & (indices < at + len(rows))
        picked[here] = rows[indices[here] - at]
        at += len(rows)
    return [picked]


def _decompose_gather(op: Op) -> list[Op]:
    parts, axis = Parts(op), op.attributes(BcqGatherAttrs).axis
    inputs = [parts.constant(_weights(op)), operand(op, 2)]
    parts.make("GATHER", inputs, GatherAttrs(axis=axis), op.outputs[0])
    return parts.ops


def _infer_gather(op: Op) -> list[TensorType]:
    indices, hidden = operand(op, 2).shape, _packed(op).hidden
    by_row = op.attributes(BcqGatherAttrs).axis == 0
    shape = (*indices, hidden) if by_row else (_row_count(op), *indices)
    return [TensorType(operand(op, 0).dtype, shape)]


def _is_constant(op: Op) -> bool:
    packed = _packed(op)
    tensors: list[Tensor] = [operand(op, i) for i in (packed.scales, packed.signs, packed.clusters)]
    return all(t.data is not None and t.sparsity is None for t in tensors)


def _clusters_fit(op: Op) -> bool:
    shape, clusters = operand(op, _packed(op).clusters).shape, _clusters(op)
    known = len(shape) == 2 and shape[1] == 2 and len(clusters) > 0
    return known and all(1 <= bits <= _MOST_BITS and rows > 0 for bits, rows in clusters)


def _sizes_fit(op: Op) -> bool:
    packed, terms = _packed(op), sum(bits * rows for bits, rows in _clusters(op))
    words = -(-packed.hidden // _WORD)
    scales, signs = operand(op, packed.scales), operand(op, packed.signs)
    return packed.hidden > 0 and scales.elements == terms and signs.elements == terms * words


def _columns_fit(op: Op) -> bool:
    shape = operand(op, 0).shape
    return len(shape) == 2 and shape[0] in (None, _packed(op).hidden)


def _cost(op: Op) -> Cost:
    """Unpacking counts as arithmetic."""
    terms = operand(op, _packed(op).signs).elements * _WORD
    macs = 0
    if op.kind == "BCQ_FULLY_CONNECTED":
        macs = op.outputs[0].elements * _packed(op).hidden
    return Cost(macs=macs, bytes=moves_bytes(op).bytes, arithmetic=2 * terms)


_RULES = (
    Rule("constant", _is_constant, "scales, signs and clusters must be constant", sized=False),
    Rule(
        "clusters",
        _clusters_fit,
        f"clusters must be rows of two numbers: 1 to {_MOST_BITS} bits, and how many rows",
        sized=False,
    ),
    Rule(
        "sizes",
        _sizes_fit,
        "scales and signs must be as many as the clusters' bits times rows",
        sized=False,
    ),
)

register(
    OpDef(
        kind="BCQ_FULLY_CONNECTED",
        attrs=BcqFullyConnectedAttrs,
        arity=(5, 5),
        required=3,
        dtypes=tuple(f"FLOAT32 FLOAT32 INT32 {bias} INT32 -> FLOAT32" for bias in ("FLOAT32", "_")),
        infer=_infer_product,
        rules=(
            *_RULES,
            Rule("columns", _columns_fit, "the input must be columns as long as a row of weights"),
            checks.bias_fits(3, _row_count),
            checks.one_of("activation", checks.ACTIVATIONS),
        ),
        evaluate=_evaluate_product,
        numerics="tolerance",
        cost=_cost,
        decompose=_decompose_product,
    )
)

register(
    OpDef(
        kind="BCQ_GATHER",
        attrs=BcqGatherAttrs,
        arity=(4, 4),
        required=4,
        dtypes=tuple(f"FLOAT32 INT32 {index} INT32 -> FLOAT32" for index in ("INT32", "INT64")),
        infer=_infer_gather,
        rules=(*_RULES, checks.at_least(("axis",), 0, 1)),
        evaluate=_evaluate_gather,
        numerics="tolerance",
        cost=_cost,
        decompose=_decompose_gather,
    )
)
