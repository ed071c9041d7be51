"""What a `CompiledModel` is asked for, in the terms of LiteRT's Python interface."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from circlet.errors import InputError, check_type
from circlet.frontends.builtin_errors import also, raised_as


class HardwareAccelerator(enum.IntFlag):
    """Kinds of processors; Circlet compiles for the CPU, and needs its leave to."""

    CPU = 1
    GPU = 2
    NPU = 4


class CpuKernelMode(enum.IntEnum):
    """LiteRT's choice of kernels; Circlet's are the same for all of them."""

    DELEGATE = 0
    XNNPACK = 0
    REFERENCE = 1
    BUILTIN = 2


@dataclass
class CpuOptions:
    """Options of the CPU.

    Attributes:
        num_threads: Threads of a run; 0 for the cores that the process may use.
        kernel_mode, enable_ynnpack, xnnpack_flags, xnnpack_weight_cache_path: Accepted; they change
            nothing here.
    """

    num_threads: int = 0
    kernel_mode: CpuKernelMode | None = None
    enable_ynnpack: bool = False
    xnnpack_flags: int | None = None
    xnnpack_weight_cache_path: str = ""


@dataclass
class GpuOptions:
    """Options of LiteRT's GPU; accepted, and they change nothing here."""

    enforce_f32: bool = False
    constant_tensor_sharing: bool = False
    infinite_float_capping: bool = False
    benchmark_mode: bool = False
    allow_src_quantized_fc_conv_ops: bool = False
    hint_waiting_for_completion: bool = False


@dataclass
class Options:
    """How a model is compiled.

    Attributes:
        hardware_accelerators: Which processors may be used; the CPU must be among them.
        cpu_options, gpu_options: Options of each.
    """

    hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU
    cpu_options: CpuOptions = field(default_factory=CpuOptions)
    gpu_options: GpuOptions = field(default_factory=GpuOptions)

    @classmethod
    def create(cls) -> Options:
        """Options with everything at its default."""
        return cls()


def resolved(options: Options | None, accelerator: HardwareAccelerator | None) -> Options:
    """The options of a model that is given some of either, checked.

    Raises:
        ValueError: Both are given.
        TypeError: They are something else.
        RuntimeError: The CPU is not among the processors.
    """
    if options is None:
        given = HardwareAccelerator.CPU if accelerator is None else accelerator
        options = Options(given, CpuOptions(num_threads=1))
    elif accelerator is not None:
        error = InputError("processors are given twice", fix="give options alone")
        raise also(error, ValueError, "Pass either options or hardware_accel, not both.")
    with raised_as(TypeError):
        check_type(options, Options, "options", "a circlet.Options")
        check_type(options.hardware_accelerators, int, "hardware_accel", "a HardwareAccelerator")
        threads = options.cpu_options.num_threads
        check_type(threads, int, "num_threads", "a number, 0 for all cores")
    _check_accelerators(options.hardware_accelerators)
    return options


def _check_accelerators(accelerators: int) -> None:
    if accelerators & HardwareAccelerator.CPU:
        return
    error = InputError(
        "the CPU is not among the processors that may be used",
        where="hardware_accel",
        why="Circlet compiles for the CPU",
        fix="add HardwareAccelerator.CPU",
    )
    sentence = "No acceleration provided."
    if accelerators:
        sentence = "Some ops are not accelerated. Add kLiteRtHwAcceleratorCpu to the compilation "
        sentence += "accelerator set to allow using the CPU to run those."
    raise also(error, RuntimeError, sentence)


@dataclass(frozen=True)
class EnvironmentOptions:
    """Where LiteRT's libraries lie; accepted, and nothing is loaded from there."""

    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""


class Environment:
    """What LiteRT's models share; Circlet's share their threads by themselves."""

    def __init__(self, options: EnvironmentOptions | None = None) -> None:
        self._options = options or EnvironmentOptions()
        self._is_open = True

    @classmethod
    def create(
        cls,
        *,
        options: EnvironmentOptions | str | None = None,
        runtime_path: str | None = None,
        compiler_plugin_path: str = "",
        dispatch_library_path: str = "",
    ) -> Environment:
        """A new environment.

        Raises:
            ValueError: A path is given twice.
        """
        if isinstance(options, str):
            if runtime_path is not None:
                raise _twice("runtime_path was provided twice.")
            options, runtime_path = None, options
        paths = EnvironmentOptions(runtime_path, compiler_plugin_path, dispatch_library_path)
        if options is not None and paths != EnvironmentOptions():
            raise _twice("Pass either options or environment path shortcuts.")
        return cls(options or paths)

    @property
    def options(self) -> EnvironmentOptions:
        """What it was made with."""
        return self._options

    @property
    def capsule(self) -> object:
        """Something that stands for it; ValueError where it is closed."""
        if not self._is_open:
            error = InputError("an environment is closed", fix="make another one")
            raise also(error, ValueError, "Environment is no longer valid")
        return self

    def close(self) -> None:
        """Have no further model made with it; those that there are go on."""
        self._is_open = False

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _twice(sentence: str) -> Exception:
    return also(InputError("a path is given twice"), ValueError, sentence)
