"""ONNX Runtime as a backend: its CPU provider over partitions in .onnx, buffers bound in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.backends.engine import EngineBackend
from circlet.backends.models import ArrayRunner
from circlet.errors import BackendError
from circlet.forking import wait_for_imports_of
from circlet.ir import Tensor

# Threads wait actively in a run and not after it, when other backends need the cores; INT8 stays
# what it is, as layers that were made UINT8 only in parts do not become integer ones; and products
# of floats with weights of 8 bits stay products of floats, which would be rounded to bytes.
_SETTINGS = {
    "session.force_spinning_stop": "1",
    "session.qdqisint8allowed": "1",
    "session.qdq_matmulnbits_accuracy_level": "1",
}
_FATAL = 4
_CPU = ("cpu", 0)


class OnnxRuntime:
    """ONNX Runtime's provider for CPUs, with all of its optimisations."""

    format = "onnx"
    passes: Sequence[str] = ()

    def check(self, model: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Open a network; BackendError where it has no kernels for it."""
        _session(model, 1)

    def runner(
        self,
        model: bytes,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> OnnxRuntimeRunner:
        """A session of its own."""
        return OnnxRuntimeRunner(_session(model, threads), inputs, outputs)


class OnnxRuntimeRunner(ArrayRunner):
    """A session that reads and writes the caller's own buffers."""

    def __init__(
        self, session: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> None:
        super().__init__(inputs, outputs)
        self._session, self._binding = session, session.io_binding()
        self._given = [each.name for each in session.get_inputs()]
        self._made = [each.name for each in session.get_outputs()]
        for index, array in enumerate(inputs):
            self.set_input(index, array)
        for index, array in enumerate(outputs):
            self.set_output(index, array)

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        super().set_input(index, buffer)
        self._binding.bind_input(self._given[index], *_CPU, *_place(buffer))

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        super().set_output(index, buffer)
        self._binding.bind_output(self._made[index], *_CPU, *_place(buffer))

    def run(self, timeout_ns: int = 0) -> None:
        """Compute the outputs."""
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # its errors are classes of an extension module
            raise BackendError("ONNX Runtime failed", why=_line(error)) from None


def _place(array: np.ndarray) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type, sizes and address of an array, which is kept by who binds it."""
    return array.dtype, array.shape, array.ctypes.data


def _session(model: bytes, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = _FATAL
    for name, value in _SETTINGS.items():
        options.add_session_config_entry(name, value)
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BackendError("ONNX Runtime does not take a network", why=_line(error)) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def backend() -> EngineBackend:
    """The backend."""
    for package in ("onnx", "onnxruntime"):
        wait_for_imports_of(package)
    return EngineBackend("onnxruntime", "ONNX Runtime", "onnxruntime", OnnxRuntime(), copies=False)
