"""ONNX's recurrent operators, made for what was spelled out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.ir import Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops.onnx.record import onnx_op
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.cell_weights import LayerWeights

_OPSET = 14


def recurrent_layer(
    name: str,
    origin: Origin,
    weights: LayerWeights,
    data: Tensor,
    starts: Sequence[Tensor],
    results: Sequence[Tensor],
    *,
    is_batch_first: bool = False,
    is_backward: bool = False,
) -> list[Op]:
    """A layer over a sequence, and the reshapes around it, as its operator has a direction more.

    Args:
        name: What constants are named after.
        origin: What it stands for.
        weights: Its weights.
        data: [time, images, inputs], or [images, time, inputs].
        starts: The output before the first step, and an LSTM's cell state, [images, cells].
        results: The outputs of all steps, in the order of the data, the last output, and an LSTM's
            last cell state.
        is_batch_first: Whether images come before time.
        is_backward: Whether the last element of the sequence is the first step.
    """
    operands = {"w": weights.data, "r": weights.recurrent, "b": weights.bias}
    constants = [constant(f"{name}/{key}", each[None]) for key, each in operands.items()]
    axis = 1 if is_batch_first else 0
    befores = [_with_axis(tensor, axis) for tensor in starts]
    made = [_with_axis(results[0], 2 if is_batch_first else 1)]
    made += [_with_axis(tensor, axis) for tensor in results[1:]]
    values: dict[str, object] = {"hidden_size": weights.recurrent.shape[1]}
    if is_batch_first:
        values["layout"] = 1
    if is_backward:
        values["direction"] = "reverse"
    if weights.kind == "GRU":
        values["linear_before_reset"] = int(weights.is_linear_before_reset)
    inputs = [data, *constants, None, *befores]
    layer = onnx_op(weights.kind, inputs, made, origin, opset=_OPSET, **values)
    return [
        *(reshaped(*pair, origin) for pair in zip(starts, befores, strict=True)),
        layer,
        *(reshaped(*pair, origin) for pair in zip(made, results, strict=True)),
    ]


def _with_axis(tensor: Tensor, axis: int) -> Tensor:
    """A tensor like another one with an axis of one element more."""
    shape = tensor.static_shape
    return Tensor(f"{tensor.name}/direction", tensor.dtype, (*shape[:axis], 1, *shape[axis:]))


def reshaped(source: Tensor, result: Tensor, origin: Origin) -> Op:
    """The op that gives a tensor the sizes of another one."""
    sizes = np.array(result.static_shape, np.int32)
    inputs: list[Tensor | None] = [source, constant(f"{result.name}/sizes", sizes)]
    return Op("RESHAPE", inputs, [result], ReshapeAttrs(result.static_shape), origin)
