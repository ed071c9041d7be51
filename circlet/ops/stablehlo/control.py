"""STABLEHLO_CASE and STABLEHLO_WHILE: operators that run graphs of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.control import common_type, dtypes_agree
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.opdef import Arrays, Effects, OpDef, Rule, TensorType, find, register
from circlet.ops.stablehlo.types import MANY

_while = find("WHILE")
assert _while is not None
register(replace(_while, kind="STABLEHLO_WHILE"))


def _infer(op: Op) -> list[TensorType]:
    """The branches' common types; a size that any two disagree on is unknown."""
    made = zip(*(region.outputs for region in op.regions), strict=True)
    return [common_type(results) for results in made]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    index, *given = [array for array in arrays if array is not None]
    number = int(index.reshape(-1)[0])
    last = len(op.regions) - 1
    return evaluate_graph(op.regions[number if 0 <= number <= last else last], given)


def _index_is_single(op: Op) -> bool:
    index = op.inputs[0]
    return index is not None and index.dtype is DType.INT32 and index.elements == 1


register(
    OpDef(
        "STABLEHLO_CASE",
        infer=_infer,
        evaluate=_evaluate,
        effects=Effects.RUNS_GRAPHS,
        arity=(1, MANY),
        dtypes=("INT32 -> *",),
        outputs=None,
        rules=(
            Rule("case-regions", lambda op: len(op.regions) > 0, "it needs a branch"),
            Rule("case-present", lambda op: None not in op.inputs, "an input is omitted"),
            Rule("case-index", _index_is_single, "the index is not one INT32"),
            Rule(
                "case-inputs",
                lambda op: all(dtypes_agree(r.inputs, op.inputs[1:]) for r in op.regions),
                "a branch takes other inputs",
            ),
            Rule(
                "case-outputs",
                lambda op: all(dtypes_agree(r.outputs, op.outputs) for r in op.regions),
                "a branch gives other outputs",
            ),
        ),
    )
)
