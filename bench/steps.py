"""Times every kernel call of a network's native plan and says what work each one does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from circlet.artifact.values import Value
from circlet.backends.base import Runner
from circlet.backends.cpu.compile import LoweredPartition, compile_partition
from circlet.backends.cpu.loader import Binding
from circlet.backends.cpu.lowering import ConstantRef, KernelCall, TensorRef
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.formats import load
from circlet.formats.arrays import Wanted, random_array
from circlet.ir import DType, Model, Op, Tensor
from circlet.ops import find
from circlet.options import Options
from circlet.plan.partition import Partition
from circlet.runtime.loading import Opened
from circlet.runtime.opening import open_source
from circlet.stored import Bytes, StrPath
from circlet.target.targets import Target, parse_targets
from circlet.target.threads import usable_cores

_COPIES = ("copy.h", "select.h")
_WINOGRAD_PLANES = 36
_INTEGERS = re.compile("q4|q8|int")


@dataclass(frozen=True)
class Work:
    """What one kernel call computes.

    Attributes:
        kernel: The C function and the constants that specialise it.
        kind: The operator's kind.
        sources: Position and name of the operators of the file that it descends from.
        tasks: Pieces that threads share.
        macs: Multiply-accumulates; those of the operator where one call computes it.
        outputs: Elements that the operator writes.
        data_bytes: Activations read and written, each once.
        constant_bytes: Weights and tables, as they are packed.
        unit: The arithmetic: "fp32", "int8" or "int16".
        made: The share of the multiply-accumulates that the kernel makes.
    """

    kernel: str
    kind: str
    sources: tuple[tuple[int, str], ...]
    tasks: int
    macs: int
    outputs: int
    data_bytes: int
    constant_bytes: int
    unit: str
    made: float = 1.0

    @property
    def bytes(self) -> int:
        """All bytes that must move."""
        return self.data_bytes + self.constant_bytes


@dataclass(frozen=True)
class TimedWork:
    """A kernel call and the median of its times, in microseconds."""

    work: Work
    us: float


@dataclass(frozen=True)
class Profile:
    """All kernel calls of a network in order.

    Attributes:
        call_us: One run as a user sees it, without timing the steps.
        numpy_us: What the parts take that numpy runs.
        resident_bytes: Packed constants and arenas: what a run goes through.
    """

    rows: tuple[TimedWork, ...]
    call_us: float
    numpy_us: float
    resident_bytes: int
    threads: int


def profile(source: StrPath | Bytes, threads: int, seconds: float = 0.6) -> Profile:
    """Run a network on random inputs for about so many seconds, timing each step.

    Raises:
        CircletError: It cannot be read, compiled or run.
        RuntimeError: Its shapes depend on the data, or its plan is not the one in the cache.
    """
    options = Options()
    opened = open_source(source, options)
    if any(value.is_dynamic for value in opened.values):
        raise RuntimeError("shapes that depend on the data cannot be bound")
    compiled = _compiled(source, options)
    _check_same(opened, [part for _, part in compiled])
    runners = _bound(opened, threads)
    call_us = 1e6 * _median_run(runners, seconds / 2)
    native = [runner for runner in runners if isinstance(runner, Binding)]
    clocks = [runner.profile() for runner in native]
    samples: list[np.ndarray] = []
    others: list[float] = []
    deadline = perf_counter() + seconds / 2
    while perf_counter() < deadline or len(samples) < 3:
        start = perf_counter()
        for runner in runners:
            runner.run()
        others.append((perf_counter() - start) * 1e6 - sum(int(c.sum()) for c in clocks) / 1e3)
        samples.append(np.concatenate([*clocks, np.zeros(0, np.uint64)]))
    step_us = np.median(np.array(samples), axis=0) / 1e3
    works = _works([part for part, _ in compiled], [done for _, done in compiled], step_us)
    rows = [TimedWork(w, float(us)) for w, us in zip(works, step_us, strict=True) if w is not None]
    resident = sum(p.memory.arena_bytes + len(p.constants) for _, p in compiled)
    has_numpy = len(native) < len(runners)
    return Profile(tuple(rows), call_us, median(others) if has_numpy else 0.0, resident, threads)


def _compiled(
    source: StrPath | Bytes, options: Options
) -> list[tuple[Partition, LoweredPartition]]:
    """The native partitions, planned again: what the artifact does not tell."""
    model = load(source, options.limits)
    return compiled_partitions(model, parse_targets(options.target)[0], options)


def compiled_partitions(
    model: Model, target: Target, options: Options
) -> list[tuple[Partition, LoweredPartition]]:
    """The native partitions of a model, lowered; C is written but not compiled."""
    planned = plan(Template.of(model, options), options._replace(target=str(target)))
    return [
        (part, compile_partition(part, target, usable_cores()))
        for part in planned.partitions
        if part.backend == "cpu"
    ]


def _check_same(opened: Opened, compiled: Sequence[LoweredPartition]) -> None:
    native = [part for part in opened.metadata["partitions"] if part["backend"] == "cpu"]
    known = [[(int(op), str(name)) for op, name in part["steps"]] for part in native]
    if known != [list(part.steps) for part in compiled]:
        raise RuntimeError("the plan in the cache is another one than that made now")


def _bound(opened: Opened, threads: int) -> list[Runner]:
    buffers = [_buffer(value, index in opened.inputs) for index, value in enumerate(opened.values)]
    return [
        part.code.bind(
            [buffers[i] for i in part.inputs], [buffers[i] for i in part.outputs], threads
        )
        for part in opened.partitions
    ]


def _buffer(value: Value, is_input: bool) -> np.ndarray:
    array = value.empty()
    if is_input:
        array[...] = random_array(Wanted(value.name, value.dtype, value.shape))
    elif value.initial is not None:
        array.reshape(-1).view(np.uint8)[...] = np.frombuffer(value.initial, np.uint8)
    return array


def _median_run(runners: Sequence[Runner], seconds: float) -> float:
    times: list[float] = []
    deadline = perf_counter() + seconds
    while perf_counter() < deadline or len(times) < 3:
        start = perf_counter()
        for runner in runners:
            runner.run()
        times.append(perf_counter() - start)
    return median(times)


def _works(
    parts: Sequence[Partition], compiled: Sequence[LoweredPartition], step_us: np.ndarray
) -> list[Work | None]:
    works: list[Work | None] = []
    for part, done in zip(parts, compiled, strict=True):
        times = step_us[len(works) : len(works) + len(done.calls)]
        works += works_of(part, done.calls, times, len(done.constants))
    return works


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
        constant_bytes=sum(facts.packed[offset] for offset in dict.fromkeys(_constants(call))),
        unit=unit_of(call),
        made=_made(call),
    )


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
    return sum(t.size_bytes // facts.touches[call.op, t] for t in _touched(call))


def _touched(call: KernelCall) -> list[Tensor]:
    if call.kernel.function == "fill_border":
        return []
    refs = (ref.tensor for ref in call.operands if isinstance(ref, TensorRef))
    return list(dict.fromkeys([*refs, *call.writes]))


def unit_of(call: KernelCall) -> str:
    """The arithmetic of a kernel, by its operator's operands, or by its name."""
    dtypes = [t.dtype for t in call.op.inputs if t is not None]
    narrow = {DType.INT8, DType.UINT8, DType.INT4}
    if dtypes and dtypes[0] is DType.INT16:
        return "int16"
    if dtypes and (dtypes[0] in narrow or (dtypes[0].is_float and narrow & set(dtypes[1:2]))):
        return "int8"
    return "int8" if _INTEGERS.search(call.kernel.header) else "fp32"
