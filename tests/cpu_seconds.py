"""A plugin of pytest that adds up CPU seconds by folder: `pytest -p tests.cpu_seconds -n 2`.

Seconds are of the user and of the system, of the test's process and of those that it waited for:
compilers, commands. They hardly depend on what else the machine does, as the wall's clock does.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from operator import itemgetter
from pathlib import PurePosixPath

import pytest

_SENT = "cpu_seconds"
_REST = "collecting, and all between tests"
_DEPTH = 3
_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def folder_of(test: str) -> str:
    """The folder whose row a test is in, `tests/backends/cpu` say, by the test's identifier."""
    parts = PurePosixPath(test.split("::")[0]).parts
    return "/".join(parts[: min(_DEPTH, len(parts) - 1)])


def spent() -> float:
    """The CPU seconds of this process and of its children that have ended."""
    uses = map(resource.getrusage, _WHO)
    return sum(use.ru_utime + use.ru_stime for use in uses)


class _Sums:
    """What the tests of one process, or of all workers, took."""

    def __init__(self) -> None:
        self.of_folders: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = spent()
        result = yield
        self.of_folders[folder_of(item.nodeid)] += spent() - before
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.of_folders[_REST] += spent() - sum(self.of_folders.values())
        sent = getattr(session.config, "workeroutput", None)
        if sent is not None:
            sent[_SENT] = dict(self.of_folders)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        for folder, seconds in getattr(node, "workeroutput", {}).get(_SENT, {}).items():
            self.of_folders[folder] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds")
        rows = sorted(self.of_folders.items(), key=itemgetter(1), reverse=True)
        for folder, seconds in (*rows, ("all", sum(self.of_folders.values()))):
            terminalreporter.write_line(f"{seconds:9.1f}  {folder}")


def pytest_configure(config: pytest.Config) -> None:
    """Add up from here on."""
    config.pluginmanager.register(_Sums(), _SENT)
