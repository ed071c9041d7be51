"""Element-wise kinds of any number of operands: one kernel per distinct expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from circlet.backends.cpu.elementwise_limits import MOST_OPERANDS
from circlet.backends.cpu.lower.copy import copy_loops, element_bytes, not_copyable
from circlet.backends.cpu.lower.elementwise.affine import (
    affine_params,
    sum_ints,
    sum_of,
    sum_row,
)
from circlet.backends.cpu.lower.elementwise.body import Load, Step, not_printable, printed
from circlet.backends.cpu.lower.elementwise.float_forms import in_floats
from circlet.backends.cpu.lower.elementwise.small_rows import (
    cycled,
    joined,
    repeat_constant,
    repetitions,
)
from circlet.backends.cpu.lower.printer import EXPRESSION_TYPES, PARAM_LIMITS
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    Loops,
    element_loops,
    row_fields,
    source_ref,
    stride_fields,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
    always_overwrites,
)
from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ops import all_records, get
from circlet.ops.expr import Scalar, Var, leaves
from circlet.target.targets import Target


class _LoopNest(NamedTuple):
    """Operands, results last, the loops over them, and how operands are loaded.

    Attributes:
        refs: Where operands stand, by number, that were copied.
    """

    tensors: tuple[Tensor, ...]
    loops: Loops
    loads: tuple[Load, ...]
    refs: Mapping[int, TensorRef] = MappingProxyType({})


def scalar_of(op: Op) -> Scalar:
    """The op's scalar expression, which its record must have."""
    record = get(op)
    assert record.scalar is not None
    return record.scalar(op)


def _inputs(op: Op) -> list[Tensor]:
    return [tensor for tensor in op.inputs if tensor is not None]


def _refuses(op: Op, target: Target) -> str | None:
    tensors = [*_inputs(op), op.outputs[0]]
    if len(tensors) > MOST_OPERANDS or len(_inputs(op)) != len(op.inputs):
        return f"takes at most {MOST_OPERANDS} operands, none omitted"
    unknown = {tensor.dtype.name for tensor in tensors if tensor.dtype not in EXPRESSION_TYPES}
    if unknown:
        return f"does not take {', '.join(sorted(unknown))}"
    try:
        scalar = scalar_of(op)
    except GraphError as error:  # An 8-bit form that only a table computes; tables took none.
        return error.what
    if not _computes_doubles(scalar, tensors):
        return "has no form for FLOAT64"
    return not_copyable(op.outputs[0]) or not_printable(scalar)


def _computes_doubles(scalar: Scalar, tensors: Sequence[Tensor]) -> bool:
    """Whether an expression computes elements in double where they are, and only there.

    `tensors` are the operands and the result.
    """
    used = {leaf.index: leaf.kind for leaf in leaves(scalar.expr) if isinstance(leaf, Var)}
    used[len(tensors) - 1] = scalar.expr.kind
    return all((tensors[at].dtype is DType.FLOAT64) == (kind == "f64") for at, kind in used.items())


def _lower(op: Op, context: Context) -> None:
    if not lowered_as_sum(op, context):
        lower_scalar(op, context, in_floats(op, scalar_of(op)), _inputs(op))


def lowered_as_sum(op: Op, context: Context) -> bool:
    """Add a call for a sum of two 8-bit operands in one affine form; False of all other ops."""
    found = sum_of(op)
    if found is None:
        return False
    params = context.packed(op, "affine", lambda: ([], affine_params(op))).fact
    if params is None:
        return False
    nest = _repeated(op, context, _loop_nest(context, found.operands, op.outputs))
    name, prelude = sum_row(found.dtype, params, [load.is_single for load in nest.loads])
    kernel = Kernel("sum_q8.h", "elementwise", (len(nest.tensors), name), prelude)
    ints = _filled(sum_ints(found.dtype, params))
    _call(op, context, nest, op.outputs, kernel, {"ints": ints})
    return True


def _filled(ints: list[int]) -> list[int]:
    return ints + [0] * (PARAM_LIMITS["i32"] - len(ints))


def lower_scalar(op: Op, context: Context, scalar: Scalar, inputs: list[Tensor]) -> None:
    """Compute an op's result from the elements of `inputs`, the operands of `scalar`."""
    step = Step(scalar, tuple(range(len(inputs))), op.outputs[0].dtype)
    lower_steps(op, context, inputs, [step], op.outputs)


def lower_steps(
    op: Op,
    context: Context,
    inputs: Sequence[Tensor],
    steps: Sequence[Step],
    outputs: Sequence[Tensor],
) -> None:
    """Compute an op's results, which have equal sizes; `outputs` are those that steps store."""
    nest = _repeated(op, context, _cycled(context, _loop_nest(context, inputs, outputs)))
    body = printed(nest.loads, tuple((s.scalar.expr, s.operands, s.stored) for s in steps))
    kernel = Kernel("elementwise.h", "elementwise", (body.operand_count, body.name), body.prelude)
    _call(op, context, nest, outputs, kernel, body.params([step.scalar for step in steps]))


def _loop_nest(context: Context, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> _LoopNest:
    inputs = [repeat_constant(tensor, outputs[0].static_shape) for tensor in inputs]
    tensors = (*inputs, *outputs)
    loops = element_loops(context, tensors, outputs[0].static_shape)
    loads = tuple(
        Load(tensor.dtype, is_single=strides[-1] == 0)
        for tensor, strides in zip(inputs, loops.strides, strict=False)
    )
    return _LoopNest(tensors, loops, loads)


def _cycled(context: Context, nest: _LoopNest) -> _LoopNest:
    """The nest with longer rows, where operands may be read over and over."""
    loops, cycles = cycled(nest.loops, context.vector_bytes // 4)
    pairs = list(zip(nest.loads, cycles, strict=False))
    if any(cycle and load.dtype.bits == 64 for load, cycle in pairs):
        return nest
    loads = tuple(replace(load, cycle=cycle) for load, cycle in pairs)
    return nest._replace(loops=loops, loads=loads)


def _repeated(op: Op, context: Context, nest: _LoopNest) -> _LoopNest:
    """The nest with longer rows, where operands of one short row may be copied to stand often."""
    count = repetitions(nest.loops)
    if count == 1 or any(load.cycle for load in nest.loads):
        return nest
    inner, refs = nest.loops.sizes[-1], dict(nest.refs)
    for number, (tensor, strides) in enumerate(zip(nest.tensors, nest.loops.strides, strict=True)):
        if strides[-1] == 1 and strides[-2] == 0:
            size = element_bytes(tensor)
            copy = context.temporary(op, inner * count * size)
            rows = Loops((count, inner), ((0, 1), (inner, 1)))
            copy_loops(op, context, source_ref(context, tensor), copy, rows, size)
            refs[number] = copy
    return nest._replace(loops=joined(nest.loops, count), refs=refs)


def _call(
    op: Op,
    context: Context,
    nest: _LoopNest,
    outputs: Sequence[Tensor],
    kernel: Kernel,
    values: Mapping[str, ParamValue],
) -> None:
    params, tasks = _fields(nest.tensors, nest.loops)
    params.update(values)
    inputs = nest.tensors[: len(nest.loads)]
    refs = nest.refs
    sources = (refs.get(n) or source_ref(context, t) for n, t in enumerate(inputs))
    operands = (*sources, *(TensorRef(tensor) for tensor in outputs))
    context.call(op, kernel, params, operands, outputs, tasks=tasks)


def _fields(tensors: Sequence[Tensor], loops: Loops) -> tuple[dict[str, ParamValue], int]:
    sizes = [element_bytes(tensor) for tensor in tensors]
    strides = [stride_fields(row) for row in loops.scaled(*sizes).strides]
    params, tasks = row_fields(loops.sizes, sum(sizes))
    unused = [0] * (MAX_AXES * (MOST_OPERANDS - len(tensors)))
    params["strides"] = [stride for row in strides for stride in row] + unused
    return params, tasks


for _record in all_records():
    if _record.scalar is not None:
        LOWERINGS.add(
            Lowering(
                _record.kind,
                f"{_record.kind.lower()}_elementwise",
                _refuses,
                _lower,
                strided_inputs=True,
                strided_any_rank=True,
                strided_output=True,
                overwrites=always_overwrites,
            )
        )
