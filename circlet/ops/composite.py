"""STABLEHLO_COMPOSITE: a named operation that is defined by a graph of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Op
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register

_MANY = 1 << 16


@dataclass(frozen=True)
class CompositeAttrs:
    """What the composite is called; the graph in `Op.regions` defines it."""

    name: str = ""
    composite_attributes: tuple[int, ...] = ()
    composite_attributes_format: str = "FLEXBUFFERS"
    version: int = 0


def _infer(op: Op) -> list[TensorType]:
    return [TensorType(made.dtype, made.shape) for made in op.regions[0].outputs]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    return evaluate_graph(op.regions[0], [array for array in arrays if array is not None])


def _takes_inputs(op: Op) -> bool:
    given = [None if tensor is None else tensor.dtype for tensor in op.inputs]
    return given == [tensor.dtype for tensor in op.regions[0].inputs]


def _gives_outputs(op: Op) -> bool:
    made = [tensor.dtype for tensor in op.regions[0].outputs]
    return made == [tensor.dtype for tensor in op.outputs]


register(
    OpDef(
        "STABLEHLO_COMPOSITE",
        infer=_infer,
        evaluate=_evaluate,
        arity=(0, _MANY),
        dtypes=("* -> *",),
        attrs=CompositeAttrs,
        outputs=None,
        required=0,
        rules=(
            Rule("composite-region", lambda op: len(op.regions) == 1, "it needs a decomposition"),
            Rule("composite-inputs", _takes_inputs, "the decomposition takes other inputs"),
            Rule("composite-outputs", _gives_outputs, "the decomposition gives other outputs"),
        ),
        numerics="tolerance",
    )
)
