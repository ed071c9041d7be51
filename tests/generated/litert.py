"""LiteRT's reference kernels as the judge of cases, in a process that may be brought down."""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from multiprocessing import get_context
from types import TracebackType

import numpy as np

from circlet.errors import CircletError
from circlet.formats import dumps
from tests.generated.case import Case
from tests.ops.one_op import has_reference

# Kinds that only LiteRT's default resolver has.
_DEFAULT_ONLY = frozenset({"SEGMENT_SUM"})
Answer = list[np.ndarray] | str
SECONDS = 60.0


def is_present() -> bool:
    """Whether LiteRT is installed."""
    return find_spec("ai_edge_litert") is not None


def run_file(content: bytes, arrays: list[np.ndarray], by_reference: bool) -> Answer:
    """The outputs of a file, or why LiteRT refuses it; by its default kernels if so asked."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kinds = OpResolverType
    chosen = kinds.BUILTIN_REF if by_reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(
            model_content=content, num_threads=1, experimental_op_resolver_type=chosen
        )
        interpreter.allocate_tensors()
        for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
            if array.size:
                interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        details = interpreter.get_output_details()
        return [np.array(interpreter.get_tensor(detail["index"])) for detail in details]
    except (RuntimeError, ValueError) as error:
        return f"refused: {' '.join(str(error).split())[:160]}"


class Judge:
    """Asks LiteRT about one case after the other; a case that brings it down is reported."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop()

    def answer(self, case: Case) -> Answer:
        """LiteRT's outputs; or text that starts with "refused", "crashed" or "no file"."""
        try:
            content = dumps(case.model(), "tflite", origins=False)
        except CircletError as error:
            return f"no file: {error.what}"
        by_reference = has_reference(case.op) and case.kind not in _DEFAULT_ONLY
        try:
            return self._ask(content, case.inputs, by_reference).result(SECONDS)
        except BrokenProcessPool:
            self._stop()
            return "crashed: its process ended"
        except TimeoutError:
            self._stop()
            return f"crashed: no answer in {SECONDS:.0f} s"

    def _ask(self, content: bytes, arrays: list[np.ndarray], by_reference: bool) -> Future[Answer]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        return self._pool.submit(run_file, content, arrays, by_reference)

    def _stop(self) -> None:
        """Give up the process, also where it hangs."""
        if self._pool is None:
            return
        workers = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
            worker.join()
        self._pool = None
