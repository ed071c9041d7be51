"""TFLM_DECODE: constants that TFLite Micro decodes as it runs.

`passes.unpack_constants` stores what they stand for, so that nothing is left to compute;
`passes.encode_weights` is the way back.
"""

from __future__ import annotations

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Tensor
from circlet.ops.micro_forms import STORED, BrokenFormError, decoded, head_problem
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, moves_bytes, register
from circlet.ops.operands import present

MICRO_DECODE = "TFLM_DECODE"
_MOST_INPUTS = 64


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """Each output from the encoded bytes and the head of its pair."""
    pairs = zip(op.outputs, inputs[::2], inputs[1::2], strict=True)
    return [_decoded(op, tensor, _bytes(one), _bytes(head)) for tensor, one, head in pairs]


def _decoded(op: Op, tensor: Tensor, encoded: np.ndarray, head: np.ndarray) -> np.ndarray:
    try:
        return decoded(tensor, encoded, head)
    except BrokenFormError as error:
        raise GraphError(
            f"{tensor.name} cannot be decoded",
            where=op.name,
            why=str(error),
            fix="compress the network again",
        ) from error


def _bytes(array: np.ndarray | None) -> np.ndarray:
    return np.ascontiguousarray(present(array)).reshape(-1).view(np.uint8)


def _infer(op: Op) -> list[TensorType]:
    """What the file says: nothing else does."""
    return [TensorType(tensor.dtype, tensor.shape) for tensor in op.outputs]


def _in_pairs(op: Op) -> bool:
    return len(op.inputs) == 2 * len(op.outputs) and bool(op.outputs)


def _constant(op: Op) -> bool:
    return all(
        tensor is not None and tensor.is_constant and tensor.sparsity is None
        for tensor in op.inputs
    )


def _stored(op: Op) -> bool:
    return all(tensor.dtype in STORED and None not in tensor.shape for tensor in op.outputs)


def _has_heads(op: Op) -> bool:
    heads = [tensor.data for tensor in op.inputs[1::2] if tensor is not None]
    return all(data is not None and not head_problem(_bytes(data)) for data in heads)


def _cost(op: Op) -> Cost:
    """A few operations for each element."""
    made = sum(tensor.elements for tensor in op.outputs)
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=8 * made)


register(
    OpDef(
        kind=f"CUSTOM:{MICRO_DECODE}",
        arity=(2, _MOST_INPUTS),
        outputs=None,
        required=2,
        dtypes=tuple(f"UINT8 UINT8 -> {dtype.name}" for dtype in STORED),
        infer=_infer,
        rules=(
            Rule("pairs", _in_pairs, "each output has two inputs", sized=False),
            Rule("constants", _constant, "inputs are constants", sized=False),
            Rule("outputs", _stored, f"outputs are {', '.join(d.name for d in STORED)}"),
            Rule("heads", _has_heads, "a head of 16 bytes says a form and versions that are known"),
        ),
        evaluate=_evaluate,
        cost=_cost,
    )
)
