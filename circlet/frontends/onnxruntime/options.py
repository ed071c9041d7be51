"""`SessionOptions`, `RunOptions` and the enumerations that they hold."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import ClassVar

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also
from circlet.frontends.onnxruntime.errors import Fail, status
from circlet.frontends.onnxruntime.ort_value import OrtValue

_LONGEST_KEY, _LONGEST_VALUE = 1024, 8192


class GraphOptimizationLevel(enum.IntEnum):
    """How much a network is rewritten: O0 where nothing is, O1 for basic, else O2."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Recorded; layers run one after the other, and their work is shared among threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Recorded; the compiler decides on the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class Overrides:
    """What is to differ from the file.

    Attributes:
        sizes, meanings: Sizes of inputs, by their names and by what they mean.
        values: Constants by name.
        files: Contents of files that constants name as the place of their elements.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.meanings: dict[str, int] = {}
        self.values: dict[str, OrtValue] = {}
        self.files: dict[str, bytes] = {}


class _Checked:
    """Attributes of stated names, each of the type of its default."""

    _defaults: ClassVar[dict[str, object]] = {}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_entries", {})

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._defaults:
            error = InputError("there is no such option", where=name, fix=_names(self._defaults))
            sentence = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise also(error, AttributeError, sentence)
        wanted = type(self._defaults[name])
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            error = InputError.mistyped(name, value, f"one of type {wanted.__name__}")
            raise also(error, TypeError, f"{name}: incompatible function arguments.")
        object.__setattr__(self, name, value)

    def _add_entry(self, key: str, value: str) -> None:
        _check_texts(key, value)
        for text, longest, what in ((key, _LONGEST_KEY, "key"), (value, _LONGEST_VALUE, "value")):
            if len(text) > longest or (what == "key" and not text):
                error = InputError(f"the {what} of an entry has an impossible length", where=key)
                sentence = f"Config {what} is empty or longer than maximum length {longest}"
                raise also(error, RuntimeError, sentence)
        entries: dict[str, str] = self.__dict__["_entries"]
        entries[key] = value

    def _get_entry(self, key: str) -> str:
        entries: dict[str, str] = self.__dict__["_entries"]
        if key not in entries:
            error = InputError("there is no such entry", where=key)
            what = f"{type(self).__name__} does not have configuration with key: {key}"
            raise also(error, RuntimeError, what)
        return entries[key]


class SessionOptions(_Checked):
    """How a session is made.

    Attributes:
        intra_op_num_threads: Threads of a run; 0 for as many as there are cores.
        graph_optimization_level: How much the network is rewritten.
        enable_profiling: Whether to write down how long each operator took.
        profile_file_prefix: What the name of the file of these times begins with.
        optimized_model_filepath: Where to write the network to, "" for nowhere.
        log_severity_level: 3 and above silence the warning that a network is compiled.

    The others are recorded, and change nothing here.
    """

    _defaults: ClassVar[dict[str, object]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    enable_profiling: bool
    graph_optimization_level: GraphOptimizationLevel
    intra_op_num_threads: int
    log_severity_level: int
    optimized_model_filepath: str
    profile_file_prefix: str

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_overrides"] = Overrides()

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Record an entry; RuntimeError where the key is empty or one is too long."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """An entry; RuntimeError where there is none."""
        return self._get_entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the sizes of this name of all inputs."""
        overrides_of(self).sizes[name] = size

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fix the sizes of this meaning of all inputs."""
        overrides_of(self).meanings[denotation] = size

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Give a constant of the network another value."""
        overrides_of(self).values[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Give constants, such as those stored outside of the file, these values.

        Raises:
            RuntimeError: There are more of the ones than of the others.
        """
        if len(names) != len(values):
            error = InputError("names and values do not pair", why=f"{len(names)}, {len(values)}")
            raise also(error, RuntimeError, "Expecting names and ort_values lists to be same size")
        overrides_of(self).values.update(zip(names, values, strict=True))

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[bytes], lengths: Sequence[int]
    ) -> None:
        """Take bytes for files that constants name as the place of their elements.

        Raises:
            RuntimeError: The lists are not of one length.
        """
        if not len(names) == len(buffers) == len(lengths):
            error = InputError("names, bytes and lengths are not equally many")
            raise also(error, RuntimeError, "Expecting lists to be same size")
        pairs = zip(names, buffers, lengths, strict=True)
        overrides_of(self).files.update({name: data[:size] for name, data, size in pairs})

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: libraries of operators for ONNX Runtime cannot be run here."""
        error = InputError(
            "libraries of custom operators for ONNX Runtime are not loaded",
            where=str(path),
            fix="teach operators in Python: circlet.register_op",
        )
        raise status(error, Fail, f"Failed to load library {path}")

    def has_providers(self) -> bool:
        """Whether providers were added; never."""
        return False


class RunOptions(_Checked):
    """How a run is made.

    Attributes:
        terminate: Set to True, from any thread, it stops the runs that were given these options.

    The others are recorded, and change nothing here.
    """

    _defaults: ClassVar[dict[str, object]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }
    terminate: bool

    def __init__(self) -> None:
        super().__init__()
        cancels: list[Callable[[], None]] = []
        self.__dict__["_cancels"] = cancels

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "terminate" and value:
            for cancel in list(cancels_of(self)):
                cancel()

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Record an entry; RuntimeError where the key is empty or one is too long."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """An entry; RuntimeError where there is none."""
        return self._get_entry(key)


def overrides_of(options: SessionOptions) -> Overrides:
    """What a session with these options changes in its file."""
    found: Overrides = options.__dict__["_overrides"]
    return found


def cancels_of(options: RunOptions) -> list[Callable[[], None]]:
    """What stops the runs that were given these options."""
    found: list[Callable[[], None]] = options.__dict__["_cancels"]
    return found


def _check_texts(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str):
            error = InputError.mistyped("a configuration entry", text, "two texts")
            raise also(error, TypeError, "incompatible function arguments.")


def _names(defaults: dict[str, object]) -> str:
    return f"the options are {', '.join(defaults)}"
