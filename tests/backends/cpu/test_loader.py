from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from circlet.backends.cpu.abi import ABI_VERSION
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.loader import Library, load_runtime
from circlet.errors import ArtifactError
from circlet.target import threads
from tests.backends.cpu import native


def test_one_runtime_library_per_content() -> None:
    image = native.runtime_image()
    assert load_runtime(image) is load_runtime(memoryview(bytearray(image)).toreadonly())


def test_two_images_are_two_libraries() -> None:
    libraries = [Library(native.unit_image(), "unit") for _ in range(3)]
    assert len({library.symbol("circlet_unit_table") for library in libraries}) == 3


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b"no library at all" * 100])
def test_what_is_no_library_is_refused(image: bytes) -> None:
    with pytest.raises(ArtifactError):
        Library(image, "unit")


def test_a_missing_function_is_refused() -> None:
    with pytest.raises(ArtifactError, match="function"):
        native.runtime().library.function("circlet_absent")


def test_code_loads_where_memory_files_are_not_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> int:
        raise OSError(1, "not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert Library(native.unit_image(), "unit").symbol("circlet_unit_table")


def test_a_plan_at_an_odd_address_is_copied() -> None:
    plan = native.chain_plan(1, 4)
    room = np.zeros(len(plan) + 1, np.uint8)
    room[1:] = np.frombuffer(plan, np.uint8)
    made = Executable(native.runtime(), room[1:].data, b"", [native.unit_image()])
    assert made.step_count == 1


def test_a_run_calls_nothing_beside_the_native_function() -> None:
    run = native.chain(1, 1, 1)[0].run
    called: list[str] = []

    def note(frame: FrameType, event: str, function: object) -> None:
        if event in ("call", "c_call"):
            called.append(frame.f_code.co_name if event == "call" else repr(function))

    sys.setprofile(note)
    run()
    sys.setprofile(None)
    assert called[:-1] == ["run"]  # the last is what ends this


def test_status_function_of_the_runtime_matches() -> None:
    assert native.runtime().library.function("circlet_abi_version")() == ABI_VERSION
    assert native.runtime().usable_cores() == len(os.sched_getaffinity(0))
    assert ctypes.sizeof(ctypes.c_void_p) in (4, 8)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"own/cpu.max": "max 100000", "cpu.max": "400000 100000"}, 4),
        ({"own/cpu.max": "200000 100000", "cpu.max": "400000 100000"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_default_threads_respect_the_cgroup(
    files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_CGROUP", str(tmp_path))
    monkeypatch.setattr(threads, "_MEMBERSHIP", str(tmp_path / "membership"))
    (tmp_path / "membership").write_text("1:cpu:/x\n0::/own\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads.default_threads() == cores
