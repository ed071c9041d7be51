"""A PostgreSQL server of a test's own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PLACES = "/usr/lib/postgresql/*/bin/initdb"
_USERS = ("postgres", "nobody")


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None where it is not installed."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/").glob(_PLACES.lstrip("/")))
    return found[-1].parent if found else None


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """The address of a data base on a server that lives for the block; programs in `folder`."""
    port, home = free_port(), Path(tempfile.mkdtemp(prefix="circlet-postgres-"))
    user = _user()
    if user:
        shutil.chown(home, user)
    data, before = home / "data", ["runuser", "-u", user, "--"] if user else []
    settings = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off"
    control = [*before, str(folder / "pg_ctl"), "-D", str(data)]
    try:
        make = [str(folder / "initdb"), "-D", str(data), "-U", "circlet", "--auth=trust", "-N"]
        _call([*before, *make], home)
        _call([*control, "-w", "-o", settings, "-l", str(home / "log"), "start"], home)
        try:
            yield f"postgresql://circlet@127.0.0.1:{port}/postgres"
        finally:
            _call([*control, "-m", "immediate", "stop"], home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _user() -> str:
    """Whom the server runs as: not root, whom it refuses."""
    if os.getuid():
        return ""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _USERS if name in known)


def _call(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
