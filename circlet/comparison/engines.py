"""The engines that are compared, each at its best documented settings for a network's class.

Every opener is called in a process of its own, imports its engine there, and gives an `Engine`
whose inputs are set and whose outputs stand in buffers of the caller's choice where it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from circlet.words import counted

Arrays = list[np.ndarray]
_PRECISIONS = {"fp32": "f32", "bf16": "bf16"}


class CannotRunError(Exception):
    """Why an engine does not run a network, in one line."""


@dataclass(frozen=True)
class Task:
    """What to open, and how.

    Attributes:
        model: The network's file.
        inputs: Names and arrays of the inputs, in the file's order.
        threads: Threads of a run.
        kind: The network's class: "fp32", "integer" or "hybrid"; "bf16" is fp32 with operands
            rounded to bfloat16, where an engine can.
        cache: A folder for what the engine keeps between processes, or None for no cache.
        target: What Circlet compiles for; other engines see the machine as it is.
        level: What Circlet optimises to.
        continued: Two words: an output whose name becomes that of an input when the first is
            replaced by the second is written over that input, where an engine can.
    """

    model: Path
    inputs: Mapping[str, np.ndarray]
    threads: int
    kind: str
    cache: Path | None = None
    target: str = "native"
    continued: tuple[str, str] = ("", "")
    level: str = "O2"

    def source_of(self, output: str) -> str | None:
        """The input that an output is written over."""
        name = output.replace(*self.continued, 1)
        return name if self.continued[0] and name in self.inputs else None

    @property
    def arrays(self) -> Arrays:
        """The inputs in order."""
        return list(self.inputs.values())


IN_NUMPY = "in numpy"
"""The setting that says how many of Circlet's operators are no native code."""


@dataclass(frozen=True)
class Engine:
    """A network that is ready to run.

    Attributes:
        bound: One run on buffers that were set ahead: what latency means.
        convenient: One run as the engine's documentation shows it first: arrays in, arrays out.
        outputs: Copies of the outputs by name, after a run.
        settings: Every setting that is not the engine's default.
        version: The engine's release.
    """

    bound: Callable[[], object]
    convenient: Callable[[], object]
    outputs: Callable[[], dict[str, np.ndarray]]
    settings: dict[str, str]
    version: str
    keep: tuple[object, ...] = field(default=(), repr=False)


def litert(task: Task) -> Engine:
    """LiteRT's interpreter with its default delegate, XNNPACK."""
    import ai_edge_litert
    from ai_edge_litert.interpreter import Interpreter

    _needs(task, ".tflite")
    interpreter = Interpreter(model_path=str(task.model), num_threads=task.threads)
    details = interpreter.get_input_details()
    for detail, array in zip(details, task.arrays, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, task.arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    results = interpreter.get_output_details()

    def convenient() -> Arrays:
        for detail, array in zip(details, task.arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in results]

    def outputs() -> dict[str, np.ndarray]:
        return _named(
            [d["name"] for d in results], [interpreter.get_tensor(d["index"]) for d in results]
        )

    settings = {"num_threads": str(task.threads), "delegate": "XNNPACK"}
    return Engine(interpreter.invoke, convenient, outputs, settings, ai_edge_litert.__version__)


def litert_cached(task: Task) -> Engine:
    """LiteRT's compiled model on XNNPACK with its weight cache."""
    import ai_edge_litert
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.cpu_options import CpuOptions
    from ai_edge_litert.options import Options

    _needs(task, ".tflite")
    weights = "" if task.cache is None else str(task.cache / f"{task.model.stem}.xnnpack")
    options = CpuOptions(num_threads=task.threads, xnnpack_weight_cache_path=weights)
    model = CompiledModel.from_file(str(task.model), options=Options(cpu_options=options))
    buffers = _LiteRtBuffers(model, task)
    settings = {"num_threads": str(task.threads), "xnnpack_weight_cache_path": "a file"}
    version = ai_edge_litert.__version__
    return Engine(
        buffers.run, buffers.convenient, buffers.outputs, settings, version, keep=(model,)
    )


class _LiteRtBuffers:
    """A compiled model between buffers of its own, which hold the task's inputs.

    Raises:
        CannotRunError: The sizes of an input are open.
    """

    def __init__(self, model: Any, task: Task) -> None:
        key, names = next(iter(model.get_signature_list().items()))
        self._model, self._given = model, _in_order(names["inputs"], task)
        self._results = [
            (name, tuple(row["shape"]), np.dtype(row["dtype"]))
            for name, row in model.get_output_tensor_details(key).items()
        ]
        self._sources, self._targets = model.create_input_buffers(0), model.create_output_buffers(0)
        wanted = model.get_input_tensor_details(key).values()
        for array, row in zip(self._given, wanted, strict=True):
            if tuple(row["shape"]) != array.shape:
                raise CannotRunError("its compiled model leaves the sizes of an input open")
        self._write()

    def run(self) -> None:
        """One run, on what the buffers hold."""
        self._model.run_by_index(0, self._sources, self._targets)

    def convenient(self) -> Arrays:
        """A run that writes the inputs and reads the outputs."""
        self._write()
        self.run()
        return self._read()

    def outputs(self) -> dict[str, np.ndarray]:
        """What the last run made, by name."""
        return _named([name for name, _, _ in self._results], self._read())

    def _write(self) -> None:
        for buffer, array in zip(self._sources, self._given, strict=True):
            buffer.write(array)

    def _read(self) -> Arrays:
        pairs = zip(self._targets, self._results, strict=True)
        return [b.read(int(np.prod(s)), t.type).reshape(s) for b, (_, s, t) in pairs]


def openvino(task: Task) -> Engine:
    """OpenVINO on the CPU with its latency hint; at the precision of the classes of floats."""
    import openvino as ov

    core = ov.Core()
    if task.cache is not None:
        core.set_property({"CACHE_DIR": str(task.cache / "openvino")})
    model = core.read_model(task.model)
    ports = _ports(model.inputs, task)
    model.reshape({port: list(array.shape) for port, array in ports.items()})
    settings: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": task.threads,
    }
    if task.kind in _PRECISIONS:
        settings["INFERENCE_PRECISION_HINT"] = _PRECISIONS[task.kind]
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    named = _ports(compiled.inputs, task)
    given = {port: np.ascontiguousarray(array) for port, array in named.items()}
    static = [port for port in compiled.outputs if port.partial_shape.is_static]
    made = [np.empty(tuple(port.shape), port.element_type.to_dtype()) for port in static]
    pairs = [*given.items(), *zip(static, made, strict=True)]
    tensors = [ov.Tensor(array, shared_memory=True) for _, array in pairs]
    for (port, _), tensor in zip(pairs, tensors, strict=True):
        request.set_tensor(port, tensor)

    def outputs() -> dict[str, np.ndarray]:
        ends = list(compiled.outputs)
        names = [port.any_name if port.names else "" for port in ends]
        return _named(names, [np.array(request.get_tensor(port).data) for port in ends])

    return Engine(
        partial(request.infer, share_outputs=True),
        lambda: request.infer(given),
        outputs,
        {key: str(value) for key, value in settings.items()},
        ov.__version__,
        keep=(compiled, pairs, tensors),
    )


def onnxruntime(task: Task) -> Engine:
    """ONNX Runtime with all optimisations and bound inputs and outputs."""
    import onnxruntime as ort

    _needs(task, ".onnx")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = task.threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(task.model), options, providers=["CPUExecutionProvider"])
    named = dict(zip([value.name for value in session.get_inputs()], task.arrays, strict=True))
    names = [value.name for value in session.get_outputs()]
    binding = session.io_binding()
    bound = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in named.items()}
    for name, value in bound.items():
        binding.bind_ortvalue_input(name, value)
    for name, array in zip(names, session.run(names, named), strict=True):
        source = task.source_of(name)
        made = bound[source] if source else ort.OrtValue.ortvalue_from_numpy(array)
        binding.bind_ortvalue_output(name, made)
    settings = {
        "graph_optimization_level": "ORT_ENABLE_ALL",
        "intra_op_num_threads": str(task.threads),
    }
    return Engine(
        lambda: session.run_with_iobinding(binding),
        lambda: session.run(names, named),
        lambda: _named(names, binding.copy_outputs_to_cpu()),
        settings,
        ort.__version__,
    )


def circlet(task: Task) -> Engine:
    """Circlet's bound call."""
    from circlet import __version__
    from circlet.artifact.values import unique_names
    from circlet.backends.registry import native_operators
    from circlet.runtime.session import Session

    precision = _PRECISIONS.get(task.kind, "f32")
    target, level = task.target, task.level
    session = Session(
        task.model, threads=task.threads, precision=precision, target=target, level=level
    )
    names = unique_names(session.inputs)
    given = dict(zip(names, task.arrays, strict=True))
    pairs = list(zip(session.inputs, task.arrays, strict=True))
    if all(value.takes(array.shape) for value, array in pairs):
        session, _ = session.fitting(task.arrays)  # open sizes may be worth code of their own
    else:
        session = session.resized({name: array.shape for name, array in given.items()})
    arrays = task.arrays
    settings = {"threads": str(task.threads), "precision": precision, "target": target}
    settings |= {"level": level} if level != "O2" else {}
    native, operators = native_operators(session.opened.metadata)
    if native < operators:
        settings[IN_NUMPY] = f"{operators - native} of {operators} operators"
    results = unique_names(session.outputs)
    if any(value.is_dynamic for value in session.outputs):
        settings["call"] = "Session.run, as shapes of outputs depend on the data"
        last: dict[str, np.ndarray] = {}

        def run() -> None:
            last.update(session.run(arrays))

        return Engine(run, run, lambda: dict(last), settings, __version__)
    sources = [task.source_of(name) for name in results]
    outputs = [
        task.inputs[source] if source else value.empty()
        for source, value in zip(sources, session.outputs, strict=True)
    ]
    call = session.bind(arrays, outputs)
    return Engine(
        call.run,
        lambda: session.run(arrays),
        lambda: _named(results, call.outputs),
        settings,
        __version__,
        keep=(call,),
    )


def circlet_f32(task: Task) -> Engine:
    """Circlet without rounded operands, whatever the class."""
    return circlet(replace(task, kind="fp32"))


def circlet_o0(task: Task) -> Engine:
    """Circlet with the operators of the file as they are."""
    return circlet(replace(task, level="O0"))


def circlet_o1(task: Task) -> Engine:
    """Circlet with results that stay number by number what they are."""
    return circlet(replace(task, level="O1"))


ENGINES: dict[str, Callable[[Task], Engine]] = {
    "litert": litert,
    "litert_cached": litert_cached,
    "openvino": openvino,
    "onnxruntime": onnxruntime,
    "circlet": circlet,
}
BESIDE = {"circlet_f32": circlet_f32, "circlet_o0": circlet_o0, "circlet_o1": circlet_o1}
"""Engines that a comparison has to ask for by name."""

PEERS = tuple(name for name in ENGINES if name != "circlet")


def _needs(task: Task, suffix: str) -> None:
    if task.model.suffix != suffix:
        raise CannotRunError(f"it reads {suffix}, not {task.model.suffix}")


def _named(names: Sequence[str], arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Copies by name; a name that repeats or lacks gets its position."""
    found: dict[str, np.ndarray] = {}
    for position, (name, array) in enumerate(zip(names, arrays, strict=True)):
        found[name if name and name not in found else f"#{position}"] = np.array(array)
    return found


def _in_order(names: Sequence[str], task: Task) -> Arrays:
    """The inputs under an engine's names: by name where it knows ours, else by position."""
    if set(names) == set(task.inputs):
        return [task.inputs[name] for name in names]
    if len(names) != len(task.inputs):
        raise CannotRunError(
            f"it sees {counted(len(names), 'input')}, the file has {len(task.inputs)}"
        )
    return task.arrays


def _ports(ports: Sequence[Any], task: Task) -> dict[Any, np.ndarray]:
    names = [port.any_name if port.names else "" for port in ports]
    return dict(zip(ports, _in_order(names, task), strict=True))
