"""What the kernel calls of a native plan compute: multiply-accumulates, bytes, arithmetic."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from circlet.backends.cpu.lowering import ConstantRef, KernelCall, TensorRef
from circlet.backends.profiled import Steps, Work
from circlet.ir import DType, Op, Tensor
from circlet.ops import find
from circlet.ops.opdef import cost_of, moves_bytes
from circlet.plan.partition import Partition

_COPIES = ("copy.h", "select.h")
_WINOGRAD_PLANES = 36
_INTEGERS = re.compile("block_bits|q8|int")
_NARROW = frozenset({DType.INT8, DType.UINT8, DType.INT4})
_JUMP = "jump"
_LOOKUPS = ("gather", "embedding_lookup")
_CACHED = ("group_attention", "group_attention_append", "group_attention_packed")


def works_of(
    part: Partition,
    calls: Sequence[KernelCall | None],
    times: Iterable[float],
    constants_bytes: int,
) -> list[Work | None]:
    """The work of each step; an operator's MACs are shared out by time over its kernel calls.

    Calls within a loop have no MACs: how often they ran is not known.
    """
    timed = list(zip(calls, times, strict=True))
    heavy: dict[Op, float] = {}
    for call, us in timed:
        if call is not None and call.kernel.header not in _COPIES:
            heavy[call.op] = heavy.get(call.op, 0.0) + float(us) + 1e-9
    facts = _Facts(
        heavy,
        frozenset(part.ops),
        _packed_bytes(calls, constants_bytes),
        Counter((call.op, t) for call in calls if call is not None for t in _touched(call)),
    )
    return [None if call is None else _work(call, float(us), facts) for call, us in timed]


@dataclass(frozen=True)
class _Facts:
    """What a call's work depends on beside itself.

    Attributes:
        heavy: Time of all calls of an operator that do more than copy.
        once: Operators outside loops.
        packed: The size of each packed constant by its offset.
        touches: How many calls of an operator touch a tensor.
    """

    heavy: dict[Op, float]
    once: frozenset[Op]
    packed: dict[int, int]
    touches: Counter[tuple[Op, Tensor]]


def _packed_bytes(calls: Sequence[KernelCall | None], constants_bytes: int) -> dict[int, int]:
    """The size of each packed constant by its offset: up to where the next one starts."""
    offsets = sorted({o for call in calls if call is not None for o in _constants(call)})
    ends = [*offsets[1:], constants_bytes]
    return {start: end - start for start, end in zip(offsets, ends, strict=False)}


def _constants(call: KernelCall) -> list[int]:
    return [ref.offset for ref in call.operands if isinstance(ref, ConstantRef)]


def _work(call: KernelCall, us: float, facts: _Facts) -> Work:
    op = call.op
    computes = op in facts.once and call.kernel.header not in _COPIES
    share = (us + 1e-9) / facts.heavy[op] if computes else 0.0
    arguments = ",".join(map(str, call.kernel.arguments))
    return Work(
        kernel=f"{call.kernel.function}({arguments})" if arguments else call.kernel.function,
        kind=op.label,
        sources=tuple((source.id, source.name) for source in op.origin.sources),
        tasks=call.tasks,
        macs=round(_macs(op) * share),
        outputs=round(sum(t.elements for t in op.outputs) * share),
        data_bytes=_data_bytes(call, facts),
        constant_bytes=_constant_bytes(call, facts),
        unit=unit_of(call),
        made=_made(call),
        copies=call.kernel.header in _COPIES,
    )


def _constant_bytes(call: KernelCall, facts: _Facts) -> int:
    stored = sum(facts.packed[offset] for offset in dict.fromkeys(_constants(call)))
    return min(stored, _reach(call, stored))


def _reach(call: KernelCall, size: int) -> int:
    """Bytes that a call touches of an operand of some size.

    A lookup reads what it gives of a table. Attention touches the new rows of a cache and of tables
    of angles; how many rows are held besides is known in a run alone, so they are not counted.
    """
    if call.kernel.function in _LOOKUPS:
        return min(size, sum(t.size_bytes for t in call.writes))
    return min(size, call.op.outputs[0].size_bytes) if call.kernel.function in _CACHED else size


def _made(call: KernelCall) -> float:
    """The share of an operator's multiply-accumulates that a kernel makes: Winograd's are fewer."""
    macs = _macs(call.op)
    if call.kernel.function != "winograd_f32" or not macs:
        return 1.0
    fields = _fields(call)
    return _WINOGRAD_PLANES * fields["patches"] * fields["channels"] * fields["filters"] / macs


def _fields(call: KernelCall) -> dict[str, int]:
    """The parameters of a call that are single integers."""
    sizes = ((name, np.asarray(value)) for name, value in call.params.items())
    return {
        name: int(value) for name, value in sizes if value.ndim == 0 and value.dtype.kind in "iu"
    }


def _macs(op: Op) -> int:
    record = find(op.label)
    return 0 if record is None else record.cost(op).computing


def _data_bytes(call: KernelCall, facts: _Facts) -> int:
    """Bytes of the tensors touched; calls of one operator that share a tensor share its bytes."""
    if call.kernel.function == "fill_border":
        fields = _fields(call)
        images = call.tasks // (fields["height"] + 1)
        return images * (fields["image_bytes"] - fields["height"] * fields["inner_bytes"])
    touched = (t.size_bytes // facts.touches[call.op, t] for t in _touched(call))
    return sum(_reach(call, size) for size in touched)


def _touched(call: KernelCall) -> list[Tensor]:
    if call.kernel.function == "fill_border":
        return []
    refs = (ref.tensor for ref in call.operands if isinstance(ref, TensorRef))
    return list(dict.fromkeys([*refs, *call.writes]))


def unit_of(call: KernelCall) -> str:
    """The arithmetic of a kernel, by its operator's operands, or by its name."""
    dtypes = [t.dtype for t in call.op.inputs if t is not None]
    if dtypes and dtypes[0] is DType.INT16:
        return "int16"
    if dtypes and (dtypes[0] in _NARROW or (dtypes[0].is_float and _NARROW & set(dtypes[1:2]))):
        return "int8"
    return "int8" if _INTEGERS.search(call.kernel.header) else "fp32"


def operator_works(partition: Partition, steps: Steps) -> list[Work | None]:
    """The work of steps whose calls are not known: that of their operators, shared out evenly."""
    counts = Counter(op for op, kernel in steps if kernel != _JUMP)
    return [
        None if kernel == _JUMP else _operator_work(partition.ops[op], kernel, counts[op])
        for op, kernel in steps
    ]


def _operator_work(op: Op, kernel: str, calls: int) -> Work:
    cost = cost_of(op)
    constants = sum(t.data.nbytes for t in op.inputs if t is not None and t.data is not None)
    first = next((t.dtype for t in op.inputs if t is not None), DType.FLOAT32)
    return Work(
        kernel=kernel,
        kind=op.label,
        sources=tuple((source.id, source.name) for source in op.origin.sources),
        tasks=1,
        macs=cost.computing // calls,
        outputs=sum(t.elements for t in op.outputs) // calls,
        data_bytes=max(0, moves_bytes(op).bytes - constants) // calls,
        constant_bytes=constants // calls,
        unit=_unit(first),
    )


def _unit(dtype: DType) -> str:
    if dtype is DType.INT16:
        return "int16"
    return "int8" if dtype in _NARROW else "fp32"
