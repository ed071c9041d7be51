"""`InferenceSession`: ONNX Runtime's Python interface, with Circlet behind it.

A script written for `onnxruntime` runs with only its import changed. Errors are coded
`CircletError`s that are also of the classes that ONNX Runtime raises, and begin with its sentence.
docs/replacing-onnxruntime.md lists what differs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

import numpy as np

from circlet.errors import CancelledError, CircletError, InputError
from circlet.formats.onnx.header import ValueInfo, inferred_outputs
from circlet.frontends.builtin_errors import also
from circlet.frontends.onnxruntime.devices import OrtMemoryInfo
from circlet.frontends.onnxruntime.errors import Fail, refused, status
from circlet.frontends.onnxruntime.feeds import (
    arrays_of,
    check_names,
    failed,
    result_of,
    wanted_outputs,
)
from circlet.frontends.onnxruntime.io_binding import IOBinding
from circlet.frontends.onnxruntime.metadata import ModelMetadata, NodeArg
from circlet.frontends.onnxruntime.network import Network, write_network
from circlet.frontends.onnxruntime.options import (
    RunOptions,
    SessionOptions,
    cancels_of,
)
from circlet.frontends.onnxruntime.ort_value import OrtValue
from circlet.frontends.onnxruntime.profiling import Profile
from circlet.frontends.onnxruntime.providers import (
    CPU,
    ProviderOptions,
    Providers,
    chosen_options,
)
from circlet.runtime.session import Session

Callback = Callable[[list[Any], Any, str], object]
_STOPPED = "Exiting due to terminate flag being set to true."


class InferenceSession:
    """Runs an .onnx network through ONNX Runtime's interface; threads may share one.

    Args:
        path_or_bytes: Path of the network, or its bytes.
        sess_options: How it is made ready.
        providers: Names of execution providers, or pairs of a name and options; others than
            "CPUExecutionProvider" are left out with a warning.
        provider_options: Options of each provider.
        enable_fallback: Whether unknown providers are left out too; else they are an error.

    Raises:
        NoSuchFile, InvalidProtobuf, InvalidArgument, InvalidGraph, NotImplemented, Fail: The
            network cannot be used; each is also a CircletError.
        TypeError: An argument is something else.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: ProviderOptions | None = None,
        *,
        enable_fallback: bool = True,
        **kwargs: object,
    ) -> None:
        _check_source(path_or_bytes)
        _check_kind(sess_options, SessionOptions, "sess_options", "constructor")
        self._enable_fallback = bool(enable_fallback)
        strict = not self._enable_fallback
        self._cpu_options = chosen_options(providers, provider_options, is_strict=strict)
        self._options = options = sess_options or SessionOptions()
        path = None if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        data = path_or_bytes if isinstance(path_or_bytes, bytes) else b""
        self._profile = Profile(options.profile_file_prefix) if options.enable_profiling else None
        self._network = Network(path, data, options)
        if self._profile is not None:
            self._profile.add("Session", "session_initialization", self._profile.start_ns)
        self._known_outputs: list[NodeArg] | None = None
        if options.optimized_model_filepath:
            write_network(self._network, options.optimized_model_filepath)

    def get_inputs(self) -> list[NodeArg]:
        """What a run must be given."""
        return [NodeArg(info) for info in self._network.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """What a run gives; sizes that the file does not state are inferred where they can be."""
        if self._known_outputs is None:
            infos = map(self._network.fixed_names, self._stated_outputs())
            self._known_outputs = [NodeArg(info) for info in infos]
        return list(self._known_outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that have a value, and may be given another."""
        return [NodeArg(info) for info in self._network.header.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of the network to people."""
        return ModelMetadata(self._network.header)

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """The memory of each input: the CPU's."""
        return [OrtMemoryInfo() for _ in self._network.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """The memory of each output: the CPU's."""
        return [OrtMemoryInfo() for _ in self._network.header.outputs]

    def get_input_epdevices(self) -> list[None]:
        """None for each input: there are no devices but the CPU."""
        return [None for _ in self._network.inputs]

    def get_session_options(self) -> SessionOptions:
        """The options that it was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """What runs it: the CPU's provider."""
        return [CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the CPU's provider, recorded."""
        return {CPU: dict(self._cpu_options)}

    def set_providers(
        self,
        providers: Providers | None = None,
        provider_options: ProviderOptions | None = None,
    ) -> None:
        """Choose providers anew; the network stays as it is.

        Raises:
            ValueError: The arguments are malformed.
            RuntimeError: A provider is unknown.
        """
        self._cpu_options = chosen_options(providers, provider_options, is_strict=True)

    def enable_fallback(self) -> None:
        """Go on with the CPU where a provider fails; it never does here."""
        self._enable_fallback = True

    def disable_fallback(self) -> None:
        """Do not go on with the CPU where a provider fails."""
        self._enable_fallback = False

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs of these names, all where there are none, for inputs by name.

        Args:
            output_names: Names in any order.
            input_feed: Arrays, lists or `OrtValue`s. Sizes that the file leaves open may differ
                from run to run. Planning for new ones takes about a millisecond for every few
                operators; the sixteen last plans are kept.
            run_options: Whose `terminate` stops the run.

        Raises:
            ValueError: An input is missing.
            InvalidArgument: A name is unknown, or an input does not fit.
            Fail: The run failed or was stopped.
        """
        _check_kind(run_options, RunOptions, "run_options", "function")
        network = self._network
        check_names(network.inputs, input_feed)
        places = wanted_outputs(network.header.outputs, output_names)
        values = arrays_of((*network.inputs, *network.header.overridable), input_feed)
        results = self._results(values, run_options)
        return [result_of(results[place]) for place in places]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, and hand results, user data and what went wrong to a function.

        Raises:
            ValueError: An input is missing.
        """
        check_names(self._network.inputs, input_feed)

        def work() -> None:
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:
                callback([], user_data, str(error))
            else:
                callback(results, user_data, "")

        Thread(target=work, name="run_async").start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As `run`, of values to values.

        Raises:
            AttributeError: An input is no `OrtValue`.
        """
        for name, value in input_dict_ort_values.items():
            _check_is_ort_value(name, value)
        results = self.run(output_names, input_dict_ort_values, run_options)
        return [OrtValue.of(result) for result in results]

    def io_binding(self) -> IOBinding:
        """Inputs and outputs to be set once for many runs."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on what is bound.

        Raises:
            ValueError: The binding is another session's.
            RuntimeError: Something is missing or does not fit, or the run failed.
        """
        if iobinding.session is not self:
            sentence = "IOBinding must be used with the session that created it."
            raise refused("the binding is of another session", ValueError, sentence)
        if not iobinding.outputs:
            sentence = "Error in execution: At least one output should be requested."
            raise refused("no output is bound", RuntimeError, sentence)
        try:
            results = self.run(list(iobinding.outputs), iobinding.inputs, run_options)
        except CircletError as error:
            said = str(error).partition("\n")[0].rpartition(" : ")[2]
            plain = InputError(error.what, where=error.where, why=error.reasons, fix=error.fix)
            raise also(plain, RuntimeError, f"Error in execution: {said}") from error
        iobinding.keep(results)

    def end_profiling(self) -> str:
        """Write what was measured, and say the name of the file; "" without profiling."""
        if self._profile is None:
            return ""
        profile, self._profile = self._profile, None
        return profile.write()

    def get_profiling_start_time_ns(self) -> int:
        """When measuring began, as `time.monotonic_ns` has it; 0 without profiling."""
        return 0 if self._profile is None else self._profile.start_ns

    def get_tuning_results(self) -> list[dict[str, object]]:
        """Nothing: what is tuned is kept in the cache."""
        return []

    def _stated_outputs(self) -> Sequence[ValueInfo]:
        stated = self._network.header.outputs
        unnamed = (v.shape is None or None in v.shape for v in stated if v.is_tensor or not v.type)
        if not any(unnamed):
            return stated
        try:
            return inferred_outputs(self._network.source.data())
        except (ImportError, RuntimeError, CircletError):
            return stated

    def _results(self, values: dict[str, Any], options: RunOptions | None) -> list[Any]:
        start_ns = time.monotonic_ns()
        try:
            session = self._network.session(values)
            given = [values.get(value.name) for value in session.inputs]
            results = self._stoppable(session, given, options)
        except CircletError as error:
            if "sentence" in error.__dict__:
                raise
            raise failed(error) from error.__cause__
        if self._profile is not None:
            self._profile.add("Session", "model_run", start_ns)
        return list(results.values())

    def _stoppable(
        self, session: Session, given: list[Any], options: RunOptions | None
    ) -> dict[str, np.ndarray]:
        """The outputs; a run that others' options stopped is run again, as it left nothing."""
        observer = None if self._profile is None else self._profile.observer()
        cancels = [] if options is None else cancels_of(options)
        cancels.append(session.cancel)
        try:
            while options is None or not options.terminate:
                try:
                    return session.run(given, observer=observer)
                except CancelledError:
                    continue
        finally:
            cancels.remove(session.cancel)
        error = CancelledError("the run was stopped", where="run_options.terminate")
        raise status(error, Fail, _STOPPED)


def _check_source(given: object) -> None:
    if not isinstance(given, str | bytes | os.PathLike):
        error = InputError.mistyped("path_or_bytes", given, "a path or bytes")
        raise also(error, TypeError, f"Unable to load from type '{type(given)}'")


def _check_kind(given: object, kind: type, where: str, what: str) -> None:
    if given is not None and not isinstance(given, kind):
        error = InputError.mistyped(where, given, f"{kind.__name__} or None")
        raise also(error, TypeError, f"incompatible {what} arguments.")


def _check_is_ort_value(name: str, given: object) -> None:
    if not isinstance(given, OrtValue):
        error = InputError.mistyped(name, given, "an OrtValue")
        sentence = f"{type(given).__name__!r} object has no attribute '_get_c_value'"
        raise also(error, AttributeError, sentence)
