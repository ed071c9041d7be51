"""Who may be reached by whom, and what is not there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from circlet.commands import fleet as commands
from circlet.errors import FileError, FleetError, InputError
from tests.cli.call import circlet

pytest.importorskip("distributed", reason="the extra fleet is not installed")

from circlet.fleet.cluster import NO_TLS, Tls, connect, serve, work


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "fleet.example", "::"])
def test_a_scheduler_that_others_reach_needs_tls_or_to_be_told(host: str) -> None:
    with pytest.raises(InputError, match="run programs"):
        serve(host, 0, NO_TLS, said=print)


def test_tls_takes_three_files(tmp_path: Path) -> None:
    ca, cert, key = files = [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]
    with pytest.raises(InputError, match="three files"):
        Tls(ca=ca).security()
    with pytest.raises(FileError, match="cannot be read"):
        Tls(ca, cert, key).security()
    for path in files:
        path.touch()
    security = Tls(ca, cert, key).security()
    assert security.require_encryption and security.tls_worker_key == str(key)


def test_a_core_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="core"):
        work("tcp://127.0.0.1:1", NO_TLS, [4000], said=print)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tls://127.0.0.1:1", "127.0.0.1"])
def test_a_scheduler_that_is_not_there_is_an_error_and_leaves_no_thread(address: str) -> None:
    before = loops()
    with pytest.raises(FleetError) as caught:
        connect(address, NO_TLS, seconds=0.5)
    assert caught.value.where == address
    assert loops() <= before


def loops() -> set[threading.Thread]:
    """The threads that run connections."""
    return {thread for thread in threading.enumerate() if thread.name == "IO loop"}


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(commands, "_PACKAGES", ("no_such_package",))
    done = circlet("fleet", "status", "--storage", f"sqlite:///{tmp_path / 'x.db'}")
    assert done.exit_code == 1 and "pip install 'circlet[fleet]'" in done.output


@pytest.mark.parametrize("text", ["a", "1-", "1-b", "99999"])
def test_cores_are_numbers_and_ranges(text: str) -> None:
    done = circlet("fleet", "work", "--scheduler", "tcp://127.0.0.1:1", "--cores", text)
    assert done.exit_code == 2 and "0-3" in done.output


def test_the_status_of_an_empty_storage_is_no_study(tmp_path: Path) -> None:
    done = circlet("fleet", "status", "--storage", f"sqlite:///{tmp_path / 'x.db'}")
    assert done.exit_code == 0 and done.output.endswith("x.db: 0\n")
