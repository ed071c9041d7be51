"""The runtime library is built once and kept, and never where others could write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlet.backends.cpu import runtime_library
from circlet.backends.cpu.runtime_library import plain_target, runtime_image
from circlet.config import Config
from circlet.target.targets import Target, native_target


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Target]:
    """The targets that something is compiled for."""
    targets: list[Target] = []

    def compile_unit(text: str, target: Target, *, config: Config, compilers: object) -> bytes:
        targets.append(target)
        return f"code {len(targets)}".encode()

    monkeypatch.setattr(runtime_library, "compile_unit", compile_unit)
    return targets


def test_it_is_built_once(tmp_path: Path, built: list[Target]) -> None:
    config, plain = Config(cache_dir=tmp_path / "cache"), plain_target(native_target())
    assert [runtime_image(plain, config) for _ in range(3)] == [b"code 1"] * 3
    assert built == [plain]


def test_a_damaged_one_is_built_again(tmp_path: Path, built: list[Target]) -> None:
    config, plain = Config(cache_dir=tmp_path / "cache"), plain_target(native_target())
    runtime_image(plain, config)
    (kept,) = (tmp_path / "cache" / "compiler").glob("*.circlet")
    kept.write_bytes(kept.read_bytes().replace(b"code 1", b"Code 1"))
    assert runtime_image(plain, config) == b"code 2"


def test_it_is_not_kept_where_others_may_write(tmp_path: Path, built: list[Target]) -> None:
    shared = tmp_path / "cache"
    shared.mkdir()
    shared.chmod(0o777)
    plain = plain_target(native_target())
    assert runtime_image(plain, Config(cache_dir=shared)) == b"code 1"
    assert runtime_image(plain, Config(cache_dir=shared)) == b"code 2"
    assert list(shared.iterdir()) == []


def test_all_targets_of_an_architecture_share_it() -> None:
    assert plain_target(native_target()) == Target.of(native_target().arch)
