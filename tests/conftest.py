"""What every test gets: a cache of its own, units that were compiled before, an end if it hangs."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from circlet.backends.cpu import toolchain
from tests import kept_units

HANG_S = 300

# The same examples in every run, however slow the machine is.
settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# A shell that starts tests in the background ignores the signal for them and for all they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests neither find nor leave anything in the user's cache; workers share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "circlet-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLET_CACHE_DIR", str(folder))
        if sys.dont_write_bytecode:  # then programs that tests start share what each would compile
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "bytecode"))
        for name in ("CIRCLET_THREADS", "CIRCLET_LOG", "CIRCLET_CACHE_BYTES"):
            patch.delenv(name, raising=False)
        yield folder


@pytest.fixture(autouse=True, scope="session")
def kept_units_of_earlier_tests(
    private_cache: Path, request: pytest.FixtureRequest
) -> Iterator[Path | None]:
    """The folder of units that were compiled before: equal C is compiled once.

    `pytest --cache-clear` forgets it; without pytest's cache there is none.

    The variable CIRCLET_TEST_UNITS names a folder that several runs of tests share.
    """
    if "CIRCLET_TEST_UNITS" in os.environ:
        folder = Path(os.environ["CIRCLET_TEST_UNITS"])
        folder.mkdir(parents=True, exist_ok=True)
    elif hasattr(request.config, "cache"):
        folder = request.config.cache.mkdir("circlet-units")
    else:
        yield None
        return
    kept_units.forget_unused(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "_compile_one", kept_units.keeping(folder, private_cache))
        yield folder


@pytest.fixture
def units_for_any_cache(
    kept_units_of_earlier_tests: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept units serve tests of artifacts in caches of their own too."""
    if kept_units_of_earlier_tests is not None:
        keeping = kept_units.keeping(kept_units_of_earlier_tests, Path("/"))
        monkeypatch.setattr(toolchain, "_compile_one", keeping)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Workers of `-n` take whole files, whose tests share what they compile."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A test that hangs ends its process with every thread's stack."""
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
