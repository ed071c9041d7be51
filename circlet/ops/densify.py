"""DENSIFY: a constant that a file stores sparsely, with all of its elements.

`passes.unpack_constants` stores sparse constants densely, so that nothing is left to compute.
"""

from __future__ import annotations

import numpy as np

from circlet.ir import Op
from circlet.ops.opdef import Arrays, OpDef, Rule, register
from circlet.ops.operands import operand, present, same_as_first


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    return [present(inputs[0])]


register(
    OpDef(
        kind="DENSIFY",
        arity=(1, 1),
        dtypes=tuple(f"{dtype} -> {dtype}" for dtype in ("FLOAT32", "FLOAT16", "INT8")),
        infer=same_as_first,
        rules=(
            Rule(
                "constant",
                lambda op: operand(op, 0).is_constant,
                "it takes a constant",
                sized=False,
            ),
        ),
        evaluate=_evaluate,
    )
)
