"""SVDF: filters of features over time, whose memory comes in and goes out as operands.

Operands: the input, weights of features, weights of time, perhaps a bias, and the memory. Results:
the memory with its oldest values gone, and the outputs.
"""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ops.decomposition import Parts
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.lstm_float import activated
from circlet.ops.nnapi.cells import copied, product, shaped
from circlet.ops.nnapi.lstm import ACTIVATIONS
from circlet.ops.nnapi.record import attributes, nnapi_kind
from circlet.ops.opdef import Arrays, Cost, Rule, TensorType
from circlet.ops.operands import moves_bytes, operand, present, sizes_agree, when_ranked
from circlet.ops.parts import matmul

FEATURES, TIME, BIAS, STATE = range(1, 5)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    data, features, time = (present(arrays[index]) for index in range(3))
    attrs, (filters, depth) = attributes(op), time.shape
    kept = present(arrays[STATE]).reshape(len(data), filters, depth).copy()
    kept[:, :, -1] = matmul(data, features.T)
    total = (kept * time).sum(axis=2, dtype=np.float32)
    made = total.reshape(len(data), -1, attrs.whole("rank")).sum(axis=2, dtype=np.float32)
    if arrays[BIAS] is not None:
        made = made + present(arrays[BIAS])
    moved = np.concatenate([kept[:, :, 1:], np.zeros_like(kept[:, :, :1])], axis=2)
    return [
        moved.reshape(len(data), filters * depth),
        activated(made.astype(np.float32), attrs.text("activation")).astype(np.float32),
    ]


def _decompose(op: Op) -> list[Op]:
    parts, attrs, (filters, depth) = Parts(op), attributes(op), operand(op, TIME).static_shape
    if depth == 1 or None in operand(op, TIME).shape:
        return []
    rank, axis = attrs.whole("rank"), parts.constant(np.array([2], np.int32))

    def columns(source: Tensor, first: int) -> Tensor:
        """All but one column, from the first one on."""
        begin, size = (np.array(each, np.int32) for each in ([0, 0, first], [-1, -1, depth - 1]))
        return parts.make("SLICE", [source, parts.constant(begin), parts.constant(size)])

    newest = product(parts, operand(op, 0), operand(op, FEATURES))
    memory = parts.reshape(operand(op, STATE), (-1, filters, depth))
    joined = [columns(memory, 0), parts.reshape(newest, (-1, filters, 1))]
    kept = parts.make("CONCATENATION", joined, ConcatenationAttrs(2))
    weighted = parts.make("MUL", [kept, operand(op, TIME)])
    each = parts.reshape(parts.make("SUM", [weighted, axis]), (-1, filters // rank, rank))
    total, bias = parts.make("SUM", [each, axis]), op.input(BIAS)
    total = total if bias is None else parts.make("ADD", [total, bias])
    copied(parts, shaped(parts, total, attrs.text("activation")), op.outputs[1])
    edges = parts.constant(np.array([[0, 0], [0, 0], [0, 1]], np.int32))
    moved = parts.make("PAD", [columns(kept, 1), edges])
    parts.reshape(moved, (-1, filters * depth), op.outputs[0])
    return parts.ops


def _infer(op: Op) -> list[TensorType]:
    batch, (filters, depth) = operand(op, 0).shape[0], operand(op, TIME).shape
    memory = None if filters is None or depth is None else filters * depth
    units = None if filters is None else filters // attributes(op).whole("rank")
    return [TensorType(DType.FLOAT32, (batch, width)) for width in (memory, units)]


def _sizes_hold(op: Op) -> bool:
    data, features, time = (operand(op, index).shape for index in range(3))
    rank = attributes(op).whole("rank")
    if (len(data), len(features), len(time)) != (2, 2, 2) or 0 in time or rank <= 0:
        return False
    filters, depth = time
    if filters is None or depth is None:
        return True
    whole = filters % rank == 0
    fit = sizes_agree(features, (filters, data[1]))
    state = sizes_agree(operand(op, STATE).shape, (data[0], filters * depth))
    bias = op.input(BIAS)
    return whole and fit and state and (bias is None or sizes_agree(bias.shape, (filters // rank,)))


def _cost(op: Op) -> Cost:
    rows = operand(op, 0).elements // max(operand(op, 0).static_shape[-1], 1)
    each = operand(op, FEATURES).elements + operand(op, TIME).elements
    return Cost(rows * each, moves_bytes(op).bytes)


nnapi_kind(
    "SVDF",
    _evaluate,
    _infer,
    _cost,
    inputs=(5, 5),
    required=3,
    outputs=2,
    dtypes=(
        "FLOAT32 FLOAT32 FLOAT32 FLOAT32 FLOAT32 -> FLOAT32",
        "FLOAT32 FLOAT32 FLOAT32 _ FLOAT32 -> FLOAT32",
    ),
    rules=(
        Rule("state", lambda op: op.input(STATE) is not None, "the memory is missing", sized=False),
        Rule(
            "activation",
            lambda op: attributes(op).text("activation") in ACTIVATIONS,
            f"the activation must be one of {', '.join(ACTIVATIONS)}",
            sized=False,
        ),
        when_ranked("sizes", _sizes_hold, "sizes of weights, bias and memory must fit the input"),
    ),
    decompose=_decompose,
)
