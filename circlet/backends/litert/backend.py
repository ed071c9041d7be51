"""LiteRT as a backend: its interpreter, with its own delegate for floats and bytes, XNNPACK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.backends.engine import EngineBackend
from circlet.backends.models import ArrayRunner
from circlet.errors import BackendError
from circlet.forking import wait_for_imports_of
from circlet.ir import Tensor
from circlet.passes.pipelines import FOR_TFLITE_ENGINES


class LiteRt:
    """LiteRT's interpreter."""

    format = "tflite"
    passes: Sequence[str] = FOR_TFLITE_ENGINES

    def check(self, model: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Prepare a network; BackendError where it does not."""
        _interpreter(model, 1)

    def runner(
        self,
        model: bytes,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> LiteRtRunner:
        """An interpreter of its own."""
        return LiteRtRunner(_interpreter(model, threads), inputs, outputs)


class LiteRtRunner(ArrayRunner):
    """An interpreter, whose tensors are memory of its own that no other interpreter reads."""

    memory = "litert"

    def __init__(
        self, interpreter: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> None:
        super().__init__(inputs, outputs)
        self._interpreter = interpreter
        self._given = [detail["index"] for detail in interpreter.get_input_details()]
        self._made = [detail["index"] for detail in interpreter.get_output_details()]

    def upload(self, index: int) -> None:
        """Copy an input to the interpreter."""
        try:
            self._interpreter.set_tensor(self._given[index], self.inputs[index])
        except (RuntimeError, ValueError) as error:
            raise BackendError("LiteRT does not take an input", why=str(error)) from error

    def download(self, index: int) -> None:
        """Copy an output from the interpreter."""
        self.outputs[index][...] = self._interpreter.get_tensor(self._made[index])

    def run(self, timeout_ns: int = 0) -> None:
        """Compute the outputs from what was uploaded."""
        try:
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise BackendError("LiteRT failed", why=str(error)) from error

    def input_memory(self, index: int) -> None:
        """Nothing that others may read."""

    def output_memory(self, index: int) -> None:
        """Nothing that others may read."""

    def share_input(self, index: int, memory: object) -> bool:
        """An interpreter reads its own tensors only."""
        return False


def _interpreter(model: bytes, threads: int) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(model_content=model, num_threads=threads)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise BackendError("LiteRT does not take a network", why=why) from None
    return interpreter


def backend() -> EngineBackend:
    """The backend."""
    wait_for_imports_of("ai_edge_litert")
    return EngineBackend("litert", "LiteRT", "ai-edge-litert", LiteRt(), copies=True)
