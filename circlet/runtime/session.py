"""`Session`: the way to run a network from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from circlet.artifact.values import (
    as_array,
    by_position,
    check_apart,
    check_buffers,
    unique_names,
)
from circlet.errors import CompilerMissingError, InputError
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.options import DEFAULT_BACKENDS, Options
from circlet.runtime.arguments import (
    check_options,
    checked_names,
    checked_options,
    checked_rules,
    checked_seconds,
    checked_shapes,
    nanoseconds,
    thread_count,
)
from circlet.runtime.artifacts import ArtifactSource
from circlet.runtime.calls import BoundCall, Given, form_of, plain_arrays
from circlet.runtime.loading import Opened
from circlet.runtime.network import LoadedNetwork
from circlet.runtime.one_options import with_one_settings
from circlet.runtime.opening import ModelSource, open_source

if TYPE_CHECKING:
    from circlet.backends.base import Observer
    from circlet.ir import Model
    from circlet.runtime.opening import Source
    from circlet.runtime.resizing import Resizer
    from circlet.stored import Bytes, Stored, StrPath


class Session:
    """A network, compiled and ready to run; any number of threads may use one session.

    A network with variable tensors (`is_stateful`) remembers: each `run` goes on from the state
    that the one before left, runs from several threads take turns, and `reset` starts afresh. Each
    `bind` has a state of its own. A run that is stopped midway leaves the state half updated.

    A process may be forked whatever its threads are doing: in the child a session goes on from the
    state that it had, or starts afresh where another thread was in the midst of a run. A bound call
    that another thread was in the midst of is to be `reset` there.

    Args:
        source: Path or bytes of a .tflite or .circle model; or a `circlet.ir.Model`, which is
            copied and never cached. Artifacts made by `circlet compile` hold code, which no session
            executes by accident: `load_artifact` opens them.
        backends: Backends in order of preference; an op goes to the first that takes it.
        threads: Threads of a run, the calling one included, at most 64; by default the cores that
            the process may use.
        strict: Whether an op that the first backend does not take is an error.
        target: What to compile for: "native", "baseline", or a list of features.
        cache: Whether to keep compiled artifacts in the cache and to use kept ones.
        shapes: Sizes of inputs, by name, that are not to be those of the model file.
        limits: Bounds on memory and time, for networks that are not trusted.
        signature: Key of the entry point to run, whose names inputs and outputs then bear; by
            default the file's first graph, with the names of its tensors.
        level: Optimisation level: "O2" by default, "Os" for the least memory, "O1", "O0".
        precision: "bf16" lets float convolutions and matrix products round their operands to
            bfloat16, which about halves their time where the CPU has instructions for it; "f16"
            lets the backend opencl store weights in float16; "f32" by default.
        tune_seconds: How long to measure which kernels are fastest on this machine, where the
            cache has no network that was tuned; 0 takes those of the least predicted time.
        verify: When the hashes of cached weights are checked: "once" for each file as long as it is
            not touched, or "always".
        backend_of: Backends by regular expressions: an operator goes to the backend of the first
            expression that matches its kind, or a source name of it, as a whole; to one of
            `backends` where that backend does not take it.
        executor: How partitions of different backends, and heavy branches of one, run: "linear",
            one after the other, by default; "dataflow", those first that most work waits for;
            "parallel", side by side, all of them on `threads` threads. Results are the same.
        fallback: Backends that take over, in order, from one that fails when the network is opened
            or run, with a warning and the reason in `placement`. A run that failed is run again,
            its timeout anew, unless the network has state.
        one_config: Settings of Samsung ONE's runtime by name (BACKENDS, OP_BACKEND_MAP and so on),
            or the path of a .cfg file of them: what they ask for and no other argument does.

    Raises:
        CircletError: With a code that says what is wrong with the source or the options.

    Attributes:
        inputs, outputs: Names, dtypes, shapes and quantisation, in order.
        is_stateful: Whether variable tensors live on from run to run.
    """

    def __init__(
        self,
        source: Source,
        *,
        backends: Sequence[str] = DEFAULT_BACKENDS,
        threads: int | None = None,
        strict: bool = False,
        target: str = "native",
        cache: bool = True,
        shapes: Mapping[str, Sequence[int]] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        signature: str = "",
        level: str | None = None,
        precision: str | None = None,
        tune_seconds: float = 0.0,
        verify: str = "once",
        backend_of: Mapping[str, str] | None = None,
        executor: str | None = None,
        fallback: Sequence[str] = (),
        one_config: StrPath | Mapping[str, str] | None = None,
    ) -> None:
        self.threads = thread_count(threads)
        options = Options(
            checked_names(backends),
            strict,
            target,
            level,
            cache,
            checked_shapes(shapes or {}),
            limits,
            signature,
            checked_seconds(tune_seconds),
            precision,
            verify,
            checked_rules(backend_of or {}),
            executor,
            checked_names(fallback, "fallback"),
        )
        options = checked_options(with_one_settings(options, one_config))
        self._set_up(source, options, open_source(source, options))

    @classmethod
    def of(cls, source: Source, options: Options, *, threads: int | None = None) -> Session:
        """A session whose options are one object; raises as `Session`."""
        options = checked_options(options)
        session = object.__new__(cls)
        session.threads = thread_count(threads)
        session._set_up(source, options, open_source(source, options))
        return session

    def _set_up(
        self,
        source: Source,
        options: Options,
        opened: Opened,
        resizer: Resizer | None = None,
    ) -> None:
        network = LoadedNetwork(source, options, opened, self.threads, resizer)
        self._network = network
        self.is_stateful = network.is_stateful
        self.inputs = network.values(opened.inputs)
        self.outputs = network.values(opened.outputs)
        self._input_names = unique_names(self.inputs)
        self._forms = [form_of(value) for value in self.inputs]
        self._limit_ns = nanoseconds(options.limits.run_seconds, "limits.run_seconds")

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "a session cannot be pickled",
            why="it is code that is loaded and memory of this process",
            fix="open it in each process, from the same file: the cache has its code",
        )

    @property
    def opened(self) -> Opened:
        """What was loaded, and how long each part of it took."""
        return self._network.opened

    @property
    def source(self) -> StrPath | Bytes | Stored | Model | None:
        """The model that it was opened with; None where that was an artifact."""
        source = self._network.source
        if isinstance(source, ModelSource):
            return source.make()
        return None if isinstance(source, ArtifactSource) else source

    @property
    def options(self) -> Options:
        """What it was asked for."""
        return self._network.options

    @property
    def placement(self) -> list[dict[str, object]]:
        """One row per operator: kind, source name, backend, and who refused it and why."""
        return self._network.opened.placement

    def run(
        self,
        inputs: Given = (),
        *,
        timeout: float | None = None,
        observer: Observer | None = None,
    ) -> dict[str, np.ndarray]:
        """Outputs by name for inputs given in order or by name.

        Args:
            inputs: Arrays of the dtypes and shapes of `self.inputs`. Sizes that the file leaves
                open may differ; the network is then made ready for them, and kept so.
            timeout: Seconds after which the run is stopped; `run_seconds` of the limits by default.
                A run that needs more room for turns of a loop than any before is run again.
            observer: Called with an `Observation` of every op as soon as it has run; what it raises
                ends the run. It may cancel the run, and must not start another of this session.

        Raises:
            InputError: An input is missing or does not fit.
            DeadlineError, CancelledError: The run was stopped.
            BackendError: A backend has no ops to show to an observer.
        """
        if observer is not None and not callable(observer):
            raise InputError.mistyped("observer", observer, "a function of an Observation")
        arrays = plain_arrays(inputs, self._input_names, self._forms)
        if arrays is None:
            fitting, arrays = self.fitting(inputs)
            if fitting is not self:
                return fitting.run(arrays, timeout=timeout, observer=observer)
        limit_ns = self._limit_ns if timeout is None else nanoseconds(timeout)
        network = self._network
        with network.turn:
            idle = network.idle
            call = network.idle_call(idle)
            try:
                if observer is None:
                    found = call(arrays, limit_ns)
                else:
                    found = call.observed(arrays, limit_ns, observer)
            except BaseException as error:
                if not network.is_recovered(error, call, idle):
                    raise
            else:
                idle.append(call)
                return found
        return self.run(arrays, timeout=timeout, observer=observer)

    def fitting(self, inputs: Given) -> tuple[Session, list[np.ndarray]]:
        """The session for the sizes of these inputs (this one, mostly), and the inputs in order.

        Raises:
            InputError: An input is missing or does not fit.
        """
        named = zip(self.inputs, by_position(self.inputs, inputs, "input"), strict=True)
        given = [as_array(array, "input", value.name) for value, array in named]
        fitting = self._fitting(given)
        pairs = zip(fitting.inputs, given, strict=True)
        return fitting, [value.check(array, "input") for value, array in pairs]

    def bind(self, inputs: Given, outputs: Given | None = None) -> BoundCall:
        """A callable that reads and writes the caller's arrays in place, again and again.

        Args:
            inputs: C-contiguous arrays, in order or by name. Those that start on a cache line, as
                `session.inputs[0].empty()` does, are read fastest.
            outputs: C-contiguous writable arrays; new ones by default. An output that continues an
                input (`output.continues` is its number: a decoder's cache) may be that input's
                array, of which then only what is new is written.

        Raises:
            InputError: An array does not fit, or an output's shape depends on the data.
        """
        changing = [value.name for value in self.outputs if value.is_dynamic]
        if changing:
            raise InputError(
                "outputs whose shape depends on the data cannot be bound",
                where=", ".join(changing),
                fix="use `run`",
            )
        sources = check_buffers(self.inputs, inputs, "input", writable=False)
        if outputs is None:
            results = [value.empty() for value in self.outputs]
        else:
            results = check_buffers(self.outputs, outputs, "output", writable=True)
        network = self._network
        continued = [value.continues for value in self.outputs]
        check_apart(sources, results, unique_names(self.outputs), continued)
        opened, execution = network.new_execution()
        numbers = opened.inputs, opened.outputs
        execution.rebind(opened.inputs, sources)
        execution.rebind(opened.outputs, results)
        recover = network.recovered if network.may_recover else None
        args = (execution, sources, results, self._limit_ns, numbers, recover)
        return BoundCall(*args, may_outgrow=network.may_outgrow)

    def resized(self, shapes: Mapping[str, Sequence[int]]) -> Session:
        """A session of the same network for other input sizes; inputs not named keep theirs.

        Raises:
            InputError: An input is unknown, or would change its number of dimensions.
            GraphError: The network does not work for these sizes.
        """
        kept = {
            name: value.shape
            for name, value in zip(unique_names(self.inputs), self.inputs, strict=True)
        }
        wanted = {**kept, **dict(checked_shapes(shapes))}
        options = self._network.options._replace(shapes=tuple(wanted.items()))
        resizer = self._network.resizer()
        opened = resizer.opened(options)
        return self._with(options) if opened is None else self._with(options, opened, resizer)

    def entered(self, signature: str) -> Session:
        """A session of the same model that enters at a signature, by that signature's names.

        Raises:
            InputError: There is no such signature.
        """
        options = self._network.options._replace(shapes=(), signature=signature)
        check_options(options)
        return self._with(options)

    def _with(
        self, options: Options, opened: Opened | None = None, resizer: Resizer | None = None
    ) -> Session:
        """A session of the same source with other options, opened now where it was not before."""
        session = object.__new__(Session)
        session.threads = self.threads
        source, model = self._network.source, self._network.opened.model
        session._set_up(source, options, opened or open_source(source, options, model), resizer)
        return session

    def reset(self) -> None:
        """Set the variable tensors of `run` back to their start, after a run in progress."""
        if self.is_stateful:
            network = self._network
            with network.turn:
                call = network.idle_call(network.idle)
                call.execution.reset()
                network.idle.append(call)

    def cancel(self) -> None:
        """Stop every `run` of this session that is in progress in other threads."""
        self._network.cancel()

    def _fitting(self, given: Sequence[np.ndarray]) -> Session:
        """The session for the sizes of these inputs: itself, or one made for open sizes."""
        shapes = tuple(array.shape for array in given)
        values = self.inputs
        if self.is_stateful or all(v.shape == s for v, s in zip(values, shapes, strict=True)):
            return self
        if not all(value.takes(shape) for value, shape in zip(values, shapes, strict=True)):
            return self
        known = self._network.taken(shapes)
        if known is None:
            known = self._made_for(shapes)
        self._network.keep(shapes, known)
        return known

    def _made_for(self, shapes: tuple[tuple[int, ...], ...]) -> Session:
        """A session for other sizes: over code that is loaded, but for the first real sizes.

        What a file leaves open has size 1, or the next that it works for, until inputs come.
        Kernels for few elements are slow for many, so the first inputs that are larger have code
        compiled for them, which serves later ones.
        """
        network, values = self._network, self.inputs
        wanted = dict(zip(unique_names(values), shapes, strict=True))
        large = [
            (number, axis)
            for number, (value, shape) in enumerate(zip(values, shapes, strict=True))
            for axis in value.outgrown_by(shape)
        ]
        if network.grown is not None:
            axes, grown = network.grown
            return grown.resized(wanted) if axes <= {*large} else self.resized(wanted)
        try:
            if not large or not network.may_compile:
                return self.resized(wanted)
            grown = self._with(network.options._replace(shapes=tuple(wanted.items())))
        except CompilerMissingError:
            return self.resized(wanted)
        network.grown = frozenset(large), grown
        return grown
