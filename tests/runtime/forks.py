"""Forks a process whose threads are busy: `python -m tests.runtime.forks OPERATION COUNT`.

Each child does the same by itself, sees that a run gives the right answer, and ends as programs do.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import NoReturn

import numpy as np

from circlet import Interpreter, Session
from circlet.commands.doctor import diagnose
from circlet.errors import CancelledError
from circlet.formats import dumps
from circlet.ir import DType, Model
from circlet.ops.build import builder
from tests.recurrent import Lstm, lstm_graph, steps_for
from tests.runtime import networks

CHILD_S = 60
BUSY_THREADS = 2
LARGEST_PAUSE_S = 0.02


class Subject:
    """Sessions that threads share, and what is done with them."""

    def __init__(self, backend: str = "cpu") -> None:
        backends = (backend, "reference")
        self.bytes = networks.convolutions(12, 8, 2)
        self.x = networks.convolutions_input(12, 8)
        self.plain = Session(self.bytes, backends=backends, threads=2)
        (self.wanted,) = self.plain.run([self.x]).values()
        graph = lstm_graph(Lstm((1, 4, 6, 20, 20), stored=True))
        (self.step,) = steps_for(graph, 1)
        recurrent = dumps(Model([graph]), "tflite")
        self.stateful = Session(recurrent, backends=backends, threads=2)
        self._first = list(Session(recurrent, backends=backends).run(self.step).values())
        self._sizes = itertools.cycle(range(8, 24))
        self._numbers = itertools.count(os.getpid() << 20)

    def check(self) -> None:
        """See that both sessions give the right answers."""
        (got,) = self.plain.run([self.x]).values()
        np.testing.assert_array_equal(got, self.wanted)
        self.stateful.reset()
        for array, right in zip(self.stateful.run(self.step).values(), self._first, strict=True):
            np.testing.assert_array_equal(array, right)

    def run(self) -> None:
        self.plain.run([self.x])

    def stateful_run(self) -> None:
        self.stateful.run(self.step)

    def observer(self) -> None:
        self.stateful.run(self.step, observer=lambda seen: None)

    def reset(self) -> None:
        self.stateful.run(self.step)
        self.stateful.reset()

    def cancel(self) -> None:
        with suppress(CancelledError):
            self.plain.run([self.x])
        self.plain.cancel()
        self.stateful.cancel()

    def bind(self) -> None:
        call = self.plain.bind([self.x])
        for _ in range(20):
            call()
        np.testing.assert_array_equal(call.outputs[0], self.wanted)

    def resized(self) -> None:
        size = next(self._sizes)
        other = self.plain.resized({"x": (1, size, size, 8)})
        other.run([np.zeros((1, size, size, 8), np.float32)])

    def invoke(self) -> None:
        interpreter = Interpreter(model_content=self.bytes, num_threads=2)
        interpreter.allocate_tensors()
        details = interpreter.get_input_details()
        interpreter.set_tensor(details[0]["index"], self.x)
        interpreter.invoke()

    def open(self) -> None:
        Session(self.bytes, threads=2).run([self.x])

    def compile(self) -> None:
        """A network that no cache has, and for which a compiler must start."""
        b = builder()
        t = b.input("x", DType.FLOAT32, (4,))
        scale = np.float32(1 + next(self._numbers) % (1 << 22))
        for _ in range(3):
            t = b.op("TANH", [b.op("MUL", [t, b.constant("c", np.full(4, scale))])])
        Session(networks.tflite(b.output(t)), cache=False).run([np.zeros(4, np.float32)])

    def doctor(self) -> None:
        own = diagnose(["cpu", "reference"])  # what other engines do after a fork is theirs
        failed = [finding.text for finding in own if not finding.ok]
        assert not failed, failed


OPERATIONS = (
    *("run", "stateful_run", "observer", "reset", "cancel", "bind"),
    *("resized", "invoke", "open", "compile", "doctor"),
)


def main() -> None:
    """Print nothing and end with status 0, or say which child did not end well, and how."""
    operation, count, backend = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of what is tested
    faulthandler.register(signal.SIGALRM, chain=True)  # says where, and ends
    subject = Subject(backend)
    act: Callable[[], None] = getattr(subject, operation)
    failures: list[str] = []
    with _busy(act, failures):
        for number, pause in enumerate(_pauses(count)):
            time.sleep(pause)
            child = os.fork()
            if not child:
                _live_as_child(subject, act, number)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status:
                failures.append(f"child {number} ended with status {status}")
                break
    act()
    sys.exit("\n".join(failures) or 0)


def _pauses(count: int) -> Iterator[float]:
    random = Random(count)
    return (random.uniform(0, LARGEST_PAUSE_S) for _ in range(count))


class _busy:  # noqa: N801
    """Threads that do the same again and again until the block ends."""

    def __init__(self, act: Callable[[], None], failures: list[str]) -> None:
        self._act, self._failures, self._is_over = act, failures, False
        self._threads = [threading.Thread(target=self._work) for _ in range(BUSY_THREADS)]

    def _work(self) -> None:
        try:
            while not self._is_over:
                self._act()
        except BaseException:
            self._failures.append(traceback.format_exc())

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()


def _live_as_child(subject: Subject, act: Callable[[], None], number: int) -> NoReturn:
    """Act, check, fork once more, and end; every third child ends as `multiprocessing` has it."""
    signal.alarm(CHILD_S)
    try:
        act()
        subject.check()
        grandchild = os.fork()
        if not grandchild:
            signal.alarm(CHILD_S)
            subject.check()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    if number % 3 == 0:
        os._exit(0)
    sys.exit(0)


if __name__ == "__main__":
    main()
