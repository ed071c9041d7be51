"""Processes of engines, seen from the side that measures; none outlives its measurement."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

OPEN_TIMEOUT_S = 120.0
CHECKOUT = Path(__file__).parents[2]
_WORKER = "circlet.comparison.worker"
_EARLIER = "bench.worker"
_CLOSE_TIMEOUT_S = 3.0


def has_worker(checkout: Path) -> bool:
    """Whether a folder is a checkout whose engine can be compared with; earlier ones as well."""
    places = ("circlet/comparison/worker.py", "bench/worker.py")
    return any((checkout / place).is_file() for place in places)


class EngineError(Exception):
    """An engine did not run a network; the message is the reason in one line."""


class Worker:
    """An engine's process with a network ready to run.

    Args:
        engine: Its name in `circlet.comparison.engines`.
        model: The network's file.
        threads: How many the engine may use.
        extra: Further arguments of `circlet.comparison.worker`.
        timeout_s: How long opening may take, in seconds.
        checkout: The checkout whose engine and worker run; else this one.

    Raises:
        EngineError: It cannot run the network, ended, or did not answer in time.
    """

    def __init__(
        self,
        engine: str,
        model: Path,
        threads: int,
        *extra: str,
        timeout_s: float = OPEN_TIMEOUT_S,
        checkout: Path = CHECKOUT,
    ) -> None:
        is_earlier = not (checkout / "circlet/comparison/worker.py").is_file()
        command = [sys.executable, "-m", _EARLIER if is_earlier else _WORKER, engine]
        command += [str(model.resolve()), str(threads), *extra]
        self.engine = engine
        self._rest = b""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": _paths(checkout)},
        )
        try:
            self.about = self._answer(timeout_s)
            if "error" in self.about:
                raise EngineError(_one_line(str(self.about["error"])))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self, runs: int, *, convenient: bool = False, timeout_s: float = 60.0) -> list[float]:
        """Microseconds of so many runs."""
        assert self._process.stdin
        word = "c " if convenient else ""
        try:
            self._process.stdin.write(f"{word}{runs}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EngineError(self._ending()) from None
        return [float(us) for us in self._answer(timeout_s)]

    def close(self) -> None:
        """End the process, by force where it does not end by itself."""
        process = self._process
        assert process.stdin and process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._complaints.close()

    def _answer(self, timeout_s: float) -> Any:
        line = self._line(timeout_s)
        try:
            return json.loads(line)
        except ValueError:
            raise EngineError(self._ending()) from None

    def _line(self, timeout_s: float) -> bytes:
        """The next line of the worker; an empty one where it ended."""
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(timeout_s):
                    self._process.kill()
                    raise EngineError(f"no answer within {timeout_s:.0f} s, ended by force")
                more = os.read(self._process.stdout.fileno(), 1 << 20)
                if not more:
                    return b""
                self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def _ending(self) -> str:
        status = self._process.wait()
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return _one_line(f"{how}: {lines[-1]}" if lines else how)


def _paths(checkout: Path) -> str:
    """Where modules are looked for: the checkout first, then where they are in this process."""
    return os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH", ""))))


def _one_line(text: str, width: int = 240) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= width else plain[: width - 3] + "..."
