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


class LiteRt:
    """LiteRT's interpreter."""

    format = "tflite"

    def refusal(self, model: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
        """Why it does not prepare a network."""
        try:
            _interpreter(model, 1)
        except BackendError as error:
            return error.why
        return ""

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
    """Copies to an interpreter, runs it, and copies back."""

    def __init__(
        self, interpreter: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> None:
        super().__init__(inputs, outputs)
        self._interpreter = interpreter
        self._given = [detail["index"] for detail in interpreter.get_input_details()]
        self._made = [detail["index"] for detail in interpreter.get_output_details()]

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
