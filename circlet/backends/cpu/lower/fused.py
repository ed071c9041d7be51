"""Chains of element-wise ops as one kernel: each part is a step over earlier ones."""

from __future__ import annotations

from circlet.backends.cpu.lower.body import Step
from circlet.backends.cpu.lower.elementwise import lower_steps
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.backends.cpu.targets import Target
from circlet.ir import Op, Tensor
from circlet.ops.fused import FUSED_ELEMENTWISE, FusedAttrs
from circlet.ops.scalars import element_scalar


def _takes(op: Op, target: Target) -> None:
    """The pass fuses only what this lowering takes."""


def _lower(op: Op, context: Context) -> None:
    assert isinstance(op.attrs, FusedAttrs)
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    places: dict[Tensor, int] = {tensor: number for number, tensor in enumerate(inputs)}
    steps: list[Step] = []
    stored: list[Tensor] = []
    for part in op.attrs.parts:
        scalar, result = element_scalar(part), part.outputs[0]
        assert scalar is not None
        if result in op.outputs:
            stored.append(result)
        operands = tuple(places[tensor] for tensor in part.inputs if tensor is not None)
        steps.append(Step(scalar, operands, result.dtype if result in op.outputs else None))
        places[result] = len(places)
    lower_steps(op, context, inputs, steps, stored)


LOWERINGS.add(
    Lowering(
        FUSED_ELEMENTWISE,
        "fused_elementwise",
        _takes,
        _lower,
        strided_inputs=True,
        strided_output=True,
    )
)
