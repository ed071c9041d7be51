"""OpenVINO as a backend: its CPU plugin, floats as float32, buffers bound without copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from circlet.backends.engine import EngineBackend
from circlet.backends.models import ArrayRunner
from circlet.errors import BackendError
from circlet.forking import wait_for_imports_of
from circlet.ir import Tensor
from circlet.passes.pipelines import FOR_TFLITE_ENGINES


class OpenVino:
    """OpenVINO's plugin for CPUs, at the settings for the latency of one run."""

    format = "tflite"
    passes: Sequence[str] = FOR_TFLITE_ENGINES

    def check(self, model: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Read a network; BackendError where it does not, or has other types at its border."""
        read = _read(model)
        for ports, tensors in ((read.inputs, inputs), (read.outputs, outputs)):
            for port, tensor in zip(ports, tensors, strict=True):
                _check_port(port, tensor.static_shape, tensor.dtype.numpy)

    def runner(
        self,
        model: bytes,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> OpenVinoRunner:
        """A compiled network of its own."""
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        read = _read(model)
        try:
            compiled = _core().compile_model(read, "CPU", settings)
        except RuntimeError as error:
            raise BackendError("OpenVINO does not compile a network", why=_line(error)) from None
        return OpenVinoRunner(compiled, inputs, outputs)


class OpenVinoRunner(ArrayRunner):
    """A request over the caller's own buffers."""

    def __init__(
        self, compiled: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> None:
        super().__init__(inputs, outputs)
        self._request = compiled.create_infer_request()
        for index, (port, array) in enumerate(zip(compiled.inputs, inputs, strict=True)):
            if array.shape == tuple(port.shape):  # else its array comes before a run
                self.set_input(index, array)
        for index, (port, array) in enumerate(zip(compiled.outputs, outputs, strict=True)):
            if array.shape == tuple(port.shape):
                self.set_output(index, array)

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        super().set_input(index, buffer)
        self._request.set_input_tensor(index, _shared(buffer))

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        super().set_output(index, buffer)
        self._request.set_output_tensor(index, _shared(buffer))

    def run(self, timeout_ns: int = 0) -> None:
        """Compute the outputs."""
        try:
            self._request.infer()
        except RuntimeError as error:
            raise BackendError("OpenVINO failed", why=_line(error)) from None


@cache
def _core() -> Any:
    import openvino

    return openvino.Core()


def _read(model: bytes) -> Any:
    with NamedTemporaryFile(suffix=".tflite") as file:  # it reads this format from files only
        file.write(model)
        file.flush()
        try:
            return _core().read_model(file.name)
        except RuntimeError as error:
            raise BackendError("OpenVINO does not read a network", why=_line(error)) from None


def _check_port(port: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    found = (
        tuple(port.shape) if port.partial_shape.is_static else None,
        port.element_type.to_dtype(),
    )
    if found != (shape, dtype):
        why = f"{found[1]}{found[0]} at a place of {dtype}{shape}"
        raise BackendError("OpenVINO changed what goes in or out of a partition", why=why)


def _shared(array: np.ndarray) -> Any:
    import openvino

    return openvino.Tensor(array, shared_memory=True)


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]


def backend() -> EngineBackend:
    """The backend."""
    wait_for_imports_of("openvino")
    return EngineBackend("openvino", "OpenVINO", "openvino", OpenVino(), copies=False)
