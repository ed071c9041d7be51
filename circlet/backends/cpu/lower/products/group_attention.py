"""com.microsoft.GroupQueryAttention: new rows go into the caches, then queries see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.backends.cpu.abi import align
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, lanes_of, registers_of
from circlet.backends.cpu.lower.products.scores import (
    ScoreSizes,
    ScoreTiles,
    block_rows,
    choose_tiles,
    score_pitch,
)
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ops.onnx import grouped_attention as record
from circlet.ops.onnx.grouped_attention import GroupSizes, group_sizes
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import known_ints, operand
from circlet.target.targets import Target

_FEWEST_PACKED = 16  # queries of a group: with fewer, packing keys takes longer than products
_MOST_PACKED = 4 << 20  # elements of keys, or of values
_TASK_QUERIES = 64
_MOST_TOGETHER = 4
_UNBOUNDED = 1 << 40
_CACHES = {1: record.PAST_K, 2: record.PAST_V}


def _refuses(op: Op, target: Target) -> str | None:
    outputs, inputs = op.outputs, [t for t in op.inputs if t is not None]
    if len(outputs) != 3 or any(None in tensor.shape for tensor in (*inputs, *outputs)):
        return "the sizes of the caches are known in a run only"
    integers = (record.LENGTHS, record.TOTAL, record.PLACES)
    floats = [t for at, t in enumerate(op.inputs) if t is not None and at not in integers]
    if any(t.dtype is not DType.FLOAT32 for t in (*floats, *outputs)):
        return "not float32"
    if op.input(record.BIAS) is not None:
        return "a bias of scores"
    return _refuses_sizes(op) or _refuses_places(op)


def _refuses_sizes(op: Op) -> str | None:
    try:
        sizes = group_sizes(op)
    except GraphError as error:
        return f"{error.what} {error.why}"
    caches = [op.input(at) for at in _CACHES.values()]
    wanted = (sizes.batch, sizes.groups, sizes.held, sizes.size)
    if (caches[0] is None) != (caches[1] is None):
        return "one cache is given, the other is not"
    if any(t is not None and t.shape != wanted for t in caches):
        return "caches do not fit"
    shape = (sizes.batch, sizes.rows, sizes.groups * sizes.size)
    given = [op.input(at) for at in (record.K, record.V)]
    if any(t is not None and t.shape != shape for t in given):
        return "keys or values do not fit the queries"
    if sizes.length < sizes.rows or 0 in op.outputs[0].static_shape:
        return "a size is 0, or the cache is shorter than the new rows"
    sink = op.input(record.SINK)
    if sink is not None and sink.elements != sizes.heads:
        return "there is not one sink for each head"
    return None


def _refuses_places(op: Op) -> str | None:
    sizes, lengths = group_sizes(op), operand(op, record.LENGTHS)
    if lengths.dtype is not DType.INT32 or lengths.elements != sizes.batch:
        return "lengths are not INT32, one for each of the batch"
    if known_ints(op.input(record.TOTAL)) is None:
        return "the greatest length is known in a run only"
    places = op.input(record.PLACES)
    if places is not None and (
        places.dtype is not DType.INT64 or places.elements != sizes.batch * sizes.rows
    ):
        return "places are not INT64, one for each row"
    tables = _tables(op)
    shapes = {t.static_shape for t in tables}
    if attributes(op).get("do_rotary", 0) and len(tables) != 2:
        return "tables of cosines and sines are missing"
    if len(shapes) > 1 or any(len(s) != 2 or 0 in s or 2 * s[1] > sizes.size for s in shapes):
        return "the tables of cosines and sines do not fit"
    return None


def _tables(op: Op) -> list[Tensor]:
    """Cosines and sines; none where nothing is turned."""
    given = [op.input(at) for at in (record.COSINES, record.SINES)]
    turns = attributes(op).get("do_rotary", 0)
    return [t for t in given if t is not None and turns]


def _lower(op: Op, context: Context) -> None:
    sizes = group_sizes(op)
    places = _places(op, sizes)
    tables: list[Ref] = [source_ref(context, t) for t in _tables(op)]
    turning = [_optional(op, context, record.PLACES), *(tables or [NoRef()] * 2)]
    q, k, v = _rows(op, context, sizes)
    lengths = source_ref(context, operand(op, record.LENGTHS))
    caches = [TensorRef(tensor) for tensor in op.outputs[1:]]
    past = [_optional(op, context, at) for at in _CACHES.values()]
    params: dict[str, ParamValue] = {
        **{f"at_{name}": value for name, value in places.items()},
        "groups": sizes.groups,
        "size": sizes.size,
    }
    context.call(
        op,
        _kernel(op, "group_attention_append"),
        {**params, "held": sizes.held, "k_row": k.step, "v_row": v.step},
        (k.ref, v.ref, *past, *caches, lengths, *turning),
        op.outputs[1:],
        tasks=sizes.batch * sizes.groups,
    )
    work = _work(op, context, sizes)
    params |= {"per_group": sizes.per_group, "q_row": q.step, **work.params, **_scores(op, sizes)}
    if work.prefix:
        params = {f"{work.prefix}{name}": value for name, value in params.items()}
    sink = _optional(op, context, record.SINK)
    context.call(
        op,
        _kernel(op, work.function, work.tiles),
        params,
        (q.ref, *caches, lengths, *turning, sink, TensorRef(op.outputs[0])),
        op.outputs[:1],
        tasks=sizes.batch * sizes.groups * work.tasks,
        scratch_bytes=work.floats * FLOAT_BYTES,
    )


@dataclass(frozen=True)
class _Rows:
    """Where the first head of the first row lies, and the elements between rows."""

    ref: Ref
    step: int


def _rows(op: Op, context: Context, sizes: GroupSizes) -> list[_Rows]:
    """Queries, keys and values, be they columns of one tensor."""
    given, size = [op.input(at) for at in (record.Q, record.K, record.V)], sizes.size
    if given[1] is not None:
        return [_Rows(source_ref(context, t), t.static_shape[-1]) for t in given if t is not None]
    packed = operand(op, record.Q)
    starts = [0, sizes.heads * size, (sizes.heads + sizes.groups) * size]
    first, step = source_ref(context, packed), packed.static_shape[-1]
    unit = 1 if isinstance(first, TensorRef) else FLOAT_BYTES
    return [_Rows(first._replace(offset=first.offset + at * unit), step) for at in starts]


def _optional(op: Op, context: Context, index: int) -> Ref:
    tensor = op.input(index)
    return NoRef() if tensor is None or tensor.elements == 0 else source_ref(context, tensor)


def _places(op: Op, sizes: GroupSizes) -> dict[str, ParamValue]:
    tables, total = _tables(op), known_ints(op.input(record.TOTAL))
    assert total is not None
    return {
        "rows": sizes.rows,
        "length": sizes.length,
        "is_first": int(total[0] == sizes.rows),
        "pairs": tables[0].static_shape[1] if tables else 0,
        "tables": tables[0].static_shape[0] if tables else 0,
    }


def _scores(op: Op, sizes: GroupSizes) -> dict[str, ParamValue]:
    attrs = attributes(op)
    window = attrs.get("local_window_size", -1)
    extra = op.input(record.SINK) is not None or attrs.get("smooth_softmax", 0) > 0
    return {
        "window": window if window > 0 else _UNBOUNDED,
        "has_extra": int(extra),
        "scale": float(attrs.get("scale", 0)) or float(1 / np.sqrt(np.float32(sizes.size))),
        "cap": float(attrs.get("softcap", 0)),
    }


@dataclass(frozen=True)
class _Work:
    """How queries are dealt out to tasks, and the kernel that computes them.

    Attributes:
        tasks: Of a group.
        floats: Scratch memory.
    """

    function: str
    prefix: str
    tiles: tuple[int, ...]
    tasks: int
    floats: int
    params: dict[str, ParamValue]


def _work(op: Op, context: Context, sizes: GroupSizes) -> _Work:
    task_rows = min(sizes.rows, -(-_TASK_QUERIES // sizes.per_group))
    queries, longest = task_rows * sizes.per_group, align(sizes.length, 16)
    tasks = -(-sizes.rows // task_rows)
    packs = queries >= _FEWEST_PACKED and longest * sizes.size <= _MOST_PACKED
    if packs:
        return _packed(op, context, sizes, queries, tasks, task_rows)
    lanes, count = lanes_of(context.vector_bytes), min(queries, _MOST_TOGETHER)
    many = registers_of(context.target, context.vector_bytes).count > 16
    keys, vectors = (4, min(4, max(1, sizes.size // lanes))) if many else (2, 2)
    params: dict[str, ParamValue] = {
        "tasks": tasks,
        "task_rows": task_rows,
        "block_rows": count,
        "pitch": longest,
    }
    floats = queries * sizes.size + count * (longest + sizes.size)
    return _Work("group_attention", "", (count, keys, vectors), tasks, floats, params)


def _packed(
    op: Op, context: Context, sizes: GroupSizes, queries: int, tasks: int, task_rows: int
) -> _Work:
    lanes = lanes_of(context.vector_bytes)
    registers = registers_of(context.target, context.vector_bytes)
    function = "group_attention_packed"

    def kernel(tiles: ScoreTiles) -> Kernel:
        return _kernel(op, function, tiles.arguments)

    scores = ScoreSizes(queries, sizes.size, sizes.length, sizes.size)
    tiles = choose_tiles(op, context, registers, scores, kernel)
    width, out_width = tiles.scores.channels(lanes), tiles.results.channels(lanes)
    pitch, wide = score_pitch(align(sizes.length, width)), align(sizes.size, out_width)
    block = block_rows(queries, pitch, tiles)
    params: dict[str, ParamValue] = {
        "tasks": tasks,
        "task_rows": task_rows,
        "block_rows": block,
        "pitch": pitch,
    }
    floats = (queries + pitch) * sizes.size + sizes.length * wide
    floats += block * (pitch + sizes.size + 1)
    return _Work(function, "all_", tiles.arguments, tasks, floats, params)


def _kernel(op: Op, function: str, tiles: tuple[int, ...] = ()) -> Kernel:
    interleaved = int(attributes(op).get("rotary_interleaved", 0))
    return Kernel("group_attention.h", function, (interleaved, *tiles))


def _overwrites(op: Op, source: Tensor, result: Tensor) -> bool:
    """Whether a cache may lie where the one that it continues lies."""
    at = op.outputs.index(result)
    return at in _CACHES and op.input(_CACHES[at]) is source and op.inputs.count(source) == 1


LOWERINGS.add(
    Lowering(
        f"CUSTOM:{PREFIX}{record.KIND}",
        "group_attention",
        _refuses,
        _lower,
        overwrites=_overwrites,
    )
)
