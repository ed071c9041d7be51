"""LiteRT as a backend: partitions stored as .tflite files and run by its interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.artifact.file import Blob, PartitionCode
from circlet.backends.base import BackendInfo, CompileAnew, CompileJob, Executable
from circlet.backends.models import ArrayRunner, ModelCompiler
from circlet.errors import BackendError
from circlet.ir import Op
from circlet.limits import Limits
from circlet.ops import unsupported_reason
from circlet.placement.interface import Reason, Supported
from circlet.target.targets import Target


class LiteRtBackend:
    """Runs partitions by LiteRT's reference kernels."""

    name = "litert"

    def describe(self) -> BackendInfo:
        """Kernels of another engine, whose threads are its own, over copies in host memory."""
        return BackendInfo(is_native=True, uses_threads=False, transfer_bytes_per_ns=10.0)

    def toolchain(self) -> str:
        """The version of LiteRT."""
        from importlib.metadata import version

        return version("ai_edge_litert")

    def diagnose(self) -> str:
        """The version of LiteRT."""
        return f"LiteRT {self.toolchain()}"

    def compiler(self, job: CompileJob) -> LiteRtCompiler:
        """What stores partitions as .tflite files."""
        return LiteRtCompiler(job)

    def load(self, code: PartitionCode, shared: Blob, limits: Limits) -> LiteRtExecutable:
        """The model of a partition."""
        return LiteRtExecutable(bytes(code.constants))

    def resizer(self, loaded: Sequence[Executable], target: Target) -> CompileAnew:
        """Other sizes are other models."""
        return CompileAnew(self, target)


class LiteRtCompiler(ModelCompiler):
    """Takes ops over fixed sizes that hold no state."""

    name = "litert"

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the op has fixed sizes, no regions and no variables."""
        reason = unsupported_reason(op)
        if reason is not None:
            return Reason(reason)
        tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
        if any(None in tensor.shape for tensor in tensors):
            return Reason("a shape depends on the data of a run")
        if op.regions or any(tensor.is_variable for tensor in tensors):
            return Reason("control flow and state stay with their session")
        if None in op.inputs:
            return Reason("LiteRT wants every operand")
        return Supported("interpreter")


class LiteRtExecutable:
    """A model that any number of interpreters may read."""

    def __init__(self, model: bytes) -> None:
        self._model = model

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> LiteRtRunner:
        """An interpreter of its own, between these buffers."""
        return LiteRtRunner(self._model, inputs, outputs, threads)


class LiteRtRunner(ArrayRunner):
    """Copies to an interpreter, runs it, and copies back."""

    def __init__(
        self,
        model: bytes,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> None:
        super().__init__(inputs, outputs)
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._interpreter = Interpreter(
            model_content=model,
            num_threads=threads,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        )
        self._interpreter.allocate_tensors()
        self._given = [detail["index"] for detail in self._interpreter.get_input_details()]
        self._made = [detail["index"] for detail in self._interpreter.get_output_details()]

    def run(self, timeout_ns: int = 0) -> None:
        """Compute the outputs."""
        try:
            for index, array in zip(self._given, self.inputs, strict=True):
                self._interpreter.set_tensor(index, array)
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise BackendError("LiteRT failed", why=str(error)) from error
        for index, array in zip(self._made, self.outputs, strict=True):
            array[...] = self._interpreter.get_tensor(index)
