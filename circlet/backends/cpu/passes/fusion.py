"""What passes that fuse element-wise operators have in common."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.cpu.elementwise_limits import MOST_FLOATS, MOST_INTS, MOST_OPERANDS
from circlet.ir import DType, Op, Tensor
from circlet.ops.expr import Param, leaves
from circlet.ops.fused import FusedAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.ops.operands import data_inputs
from circlet.ops.scalars import element_scalar

_COMPUTED = frozenset({DType.FLOAT32, DType.INT32, DType.BOOL})
_STORED = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})
_CHANGES = frozenset({"QUANTIZE", "DEQUANTIZE", "CAST", QUANTIZE, DEQUANTIZE})
_MOST_AXES = 6
_MOST_PARTS = 24


def is_elementwise(op: Op) -> bool:
    """Whether an op computes floats (or masks and indices for them) element by element."""
    tensors = [*op.inputs, *op.outputs]
    if len(op.outputs) != 1 or any(t is None or t.is_variable for t in tensors):
        return False
    types = {t.dtype for t in tensors if t is not None}
    changes = op.label in _CHANGES and DType.FLOAT32 in types
    if not types <= (_COMPUTED | _STORED if changes else _COMPUTED):
        return False
    source, shape = op.inputs[0], op.outputs[0].static_shape
    if source is None or (source.quant is not None and source.quant.is_per_channel and changes):
        return False
    sized = op.outputs[0].elements > 0 and len(shape) <= _MOST_AXES
    return sized and element_scalar(op) is not None


def external_inputs(parts: Sequence[Op]) -> list[Tensor]:
    """What ops that run together read from outside, each once, in order of use."""
    made = {tensor for part in parts for tensor in part.outputs}
    read = (tensor for part in parts for tensor in data_inputs(part))
    return list(dict.fromkeys(tensor for tensor in read if tensor not in made))


class KernelLimits:
    """Whether one kernel call has places for all that ops need."""

    def __init__(self) -> None:
        self._known: dict[Op, tuple[int, int]] = {}

    def hold(self, parts: Sequence[Op], results: Sequence[Tensor]) -> bool:
        """Whether operands and parameters of the ops fit."""
        floats, ints = (sum(numbers) for numbers in zip(*map(self._parameters, parts), strict=True))
        if floats > MOST_FLOATS or ints > MOST_INTS or len(parts) > _MOST_PARTS:
            return False
        return len(external_inputs(parts)) + len(results) <= MOST_OPERANDS

    def _parameters(self, op: Op) -> tuple[int, int]:
        """Float and whole parameters of an op's expression."""
        if op not in self._known:
            scalar = element_scalar(op)
            found = leaves(scalar.expr) if scalar is not None else []
            kinds = [leaf.kind for leaf in found if isinstance(leaf, Param)]
            self._known[op] = kinds.count("f32"), kinds.count("i32")
        return self._known[op]


def fused_op(kind: str, results: list[Tensor], attrs: FusedAttrs) -> Op:
    """One op for several that run together; it reads what they read from outside."""
    inputs: list[Tensor | None] = [*external_inputs(attrs.parts)]
    return Op(kind, inputs, results, attrs, attrs.parts[-1].origin)
