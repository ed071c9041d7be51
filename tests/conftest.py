"""What every test gets: a cache of its own, units that were compiled before, an end if it hangs."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from circlet.backends.cpu import toolchain
from tests import kept_units

HANG_S = 300


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests neither find nor leave anything in the user's cache; workers share one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "circlet-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLET_CACHE_DIR", str(folder))
        for name in ("CIRCLET_THREADS", "CIRCLET_LOG", "CIRCLET_CACHE_BYTES"):
            patch.delenv(name, raising=False)
        yield folder


@pytest.fixture(autouse=True, scope="session")
def kept_units_of_earlier_tests(
    private_cache: Path, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Equal C is compiled once; `pytest --cache-clear` forgets it.

    The variable CIRCLET_TEST_UNITS names a folder that several runs of tests share.
    """
    if "CIRCLET_TEST_UNITS" in os.environ:
        folder = Path(os.environ["CIRCLET_TEST_UNITS"])
        folder.mkdir(parents=True, exist_ok=True)
    elif hasattr(request.config, "cache"):
        folder = request.config.cache.mkdir("circlet-units")
    else:
        yield
        return
    kept_units.forget_unused(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "_compile_one", kept_units.keeping(folder, private_cache))
        yield


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A test that hangs ends its process with every thread's stack."""
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
