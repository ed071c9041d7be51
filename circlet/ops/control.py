"""IF and WHILE: operators that run graphs of the model, their `regions`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.guard import current_guard
from circlet.ops.opdef import Arrays, Effects, OpDef, Rule, TensorType, register

MANY = 1 << 16


def _infer_if(op: Op) -> list[TensorType]:
    """The branches' common type; a size that they disagree on is unknown."""
    pairs = zip(op.regions[0].outputs, op.regions[1].outputs, strict=True)
    return [_common(left, right) for left, right in pairs]


def _common(left: Tensor, right: Tensor) -> TensorType:
    if len(left.shape) != len(right.shape):
        return TensorType(left.dtype, left.shape)
    sizes = zip(left.shape, right.shape, strict=True)
    return TensorType(left.dtype, tuple(a if a == b else None for a, b in sizes))


def _infer_while(op: Op) -> list[TensorType]:
    """The types of the loop variables, which a turn must not change."""
    pairs = zip(op.inputs, op.regions[1].outputs, strict=True)
    return [_common(given, turned) for given, turned in pairs if given is not None]


def _dtypes(tensors: Sequence[Tensor | None]) -> list[DType | None]:
    return [tensor.dtype if tensor is not None else None for tensor in tensors]


def common_type(results: Sequence[Tensor]) -> TensorType:
    """The type of values of which one is taken; sizes that differ are unknown."""
    first, *others = results
    for other in others:
        kind = _common(first, other)
        first = Tensor("", kind.dtype, kind.shape)
    return TensorType(first.dtype, first.shape)


def dtypes_agree(left: Sequence[Tensor | None], right: Sequence[Tensor | None]) -> bool:
    """Whether tensors have the same types, one by one."""
    return _dtypes(left) == _dtypes(right)


def _takes(region: Graph, tensors: Sequence[Tensor | None]) -> bool:
    return _dtypes(region.inputs) == _dtypes(tensors)


def _gives(region: Graph, tensors: Sequence[Tensor]) -> bool:
    return _dtypes(region.outputs) == _dtypes(tensors)


def _is_flag(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype is DType.BOOL and tensor.elements == 1


def _evaluate_if(op: Op, arrays: Arrays) -> list[np.ndarray]:
    flag, *given = _present(arrays)
    return evaluate_graph(op.regions[0 if flag.any() else 1], given)


def _evaluate_while(op: Op, arrays: Arrays) -> list[np.ndarray]:
    values = _present(arrays)
    condition, body = op.regions
    guard, held = current_guard(), 0
    while evaluate_graph(condition, values)[0].any():
        guard.count_turn(op.name)
        values = evaluate_graph(body, values)
        guard.budget.release(held)
        held = sum(array.nbytes for array in values)
        guard.budget.charge(held, op.name, "its variables after a turn")
    guard.budget.release(held)
    return values


def _present(arrays: Arrays) -> list[np.ndarray]:
    return [array for array in arrays if array is not None]


register(
    OpDef(
        "IF",
        infer=_infer_if,
        evaluate=_evaluate_if,
        effects=Effects.RUNS_GRAPHS,
        arity=(1, MANY),
        dtypes=("BOOL -> *",),
        outputs=None,
        rules=(
            Rule("if-regions", lambda op: len(op.regions) == 2, "it needs two branches"),
            Rule("if-present", lambda op: None not in op.inputs, "an input is omitted"),
            Rule("if-flag", lambda op: _is_flag(op.inputs[0]), "the condition is not one BOOL"),
            Rule(
                "if-inputs",
                lambda op: all(_takes(region, op.inputs[1:]) for region in op.regions),
                "a branch takes other inputs",
            ),
            Rule(
                "if-outputs",
                lambda op: all(_gives(region, op.outputs) for region in op.regions),
                "a branch gives other outputs",
            ),
        ),
    )
)

register(
    OpDef(
        "WHILE",
        infer=_infer_while,
        evaluate=_evaluate_while,
        effects=Effects.RUNS_GRAPHS,
        arity=(1, MANY),
        dtypes=("* -> *",),
        outputs=None,
        rules=(
            Rule("while-regions", lambda op: len(op.regions) == 2, "it needs condition and body"),
            Rule("while-present", lambda op: None not in op.inputs, "an input is omitted"),
            Rule(
                "while-inputs",
                lambda op: all(_takes(region, op.inputs) for region in op.regions),
                "condition or body takes other inputs",
            ),
            Rule(
                "while-condition",
                lambda op: [t.dtype for t in op.regions[0].outputs] == [DType.BOOL],
                "the condition does not give one BOOL",
            ),
            Rule(
                "while-body",
                lambda op: _gives(op.regions[1], op.outputs) and _takes(op.regions[1], op.outputs),
                "the body does not give the loop's variables",
            ),
        ),
    )
)
