"""What a native run can show: for each op the step that ends it, and where its results lie.

The table is a section of the artifact, made with the plan and read when somebody observes a run.
A fused op is one op here; a view (a reshape, a slice of its input) is shown when its source is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from math import prod

from circlet.backends.cpu.abi import Operand
from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lowered import Lowered
from circlet.backends.cpu.lowering import KernelCall
from circlet.ir import Op, Tensor

Locate = Callable[[Tensor], Operand]


def observation_table(lowered: Lowered, locate: Locate) -> bytes:
    """The table of a partition; `locate` says where element 0 of a tensor lies."""
    last = dict(_last_steps(lowered))
    rows = []
    for op, step in _ends(lowered.ops, last):
        shown = [t for t in op.outputs if t in last and t.dtype.in_arrays is not None]
        values = [_described(t, locate(t), lowered.layout(t)) for t in shown]
        rows.append({"step": step, "kind": op.label, "name": op.name, "values": values})
    owners = [step.op for step in lowered.steps]
    numbers = {op: number for number, op in enumerate(dict.fromkeys(owners))}
    table = {"owners": [numbers[op] for op in owners], "rows": rows}
    return json.dumps(table, separators=(",", ":")).encode()


def _last_steps(lowered: Lowered) -> Iterator[tuple[Tensor, int]]:
    """The last step that writes each tensor, later ones after earlier ones."""
    for number, step in enumerate(lowered.steps):
        if isinstance(step, KernelCall):
            yield from ((tensor, number) for tensor in step.writes)


def _ends(ops: Sequence[Op], last: dict[Tensor, int]) -> Iterator[tuple[Op, int]]:
    """The step after which an op's results are there, in the order of steps; views join `last`."""
    found: list[tuple[int, int, Op]] = []
    for number, op in enumerate(ops):
        written = [last[tensor] for tensor in op.outputs if tensor in last]
        if not written:
            written = [last[t] for t in op.inputs if t is not None and t in last]
            last.update(dict.fromkeys(op.outputs, max(written, default=0)) if written else {})
        if written:
            found.append((max(written), number, op))
    for step, _, op in sorted(found, key=lambda row: row[:2]):
        yield op, step


def _described(tensor: Tensor, place: Operand, layout: Layout) -> dict[str, object]:
    dtype = tensor.dtype.in_arrays
    assert dtype is not None
    quant = tensor.quant if tensor.quant is not None and tensor.quant.is_affine else None
    return {
        "name": tensor.name,
        "dtype": dtype.name,
        "shape": tensor.static_shape,
        "strides": [size * dtype.itemsize for size in _strides(tensor.static_shape, layout)],
        "place": [int(place.space), place.buffer, place.offset],
        "scale": [] if quant is None else quant.scale.tolist(),
        "zero_point": [] if quant is None else quant.zero_point.tolist(),
        "axis": 0 if quant is None else quant.axis,
    }


def _strides(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Elements between neighbours along each axis."""
    if len(shape) == 4:
        return layout.batch_stride, layout.row_stride, layout.pixel_stride, 1
    outer = [layout.pixel_stride * prod(shape[axis + 1 : -1]) for axis in range(len(shape) - 1)]
    return (*outer, 1)[: len(shape)]
