"""Networks on workers: each is sent a network's bytes once, and keeps them under their hash."""

from __future__ import annotations

import os
from pathlib import Path

from distributed import Client, Worker, WorkerPlugin

from circlet.artifact.digest import digest
from circlet.errors import FileError
from circlet.regular_files import replace_file, temporary_name

_FOLDER: list[Path] = []


class ModelPlugin(WorkerPlugin):
    """Has workers, those that come later included, keep a network where trials find it."""

    def __init__(self, data: bytes) -> None:
        self.key = digest(data).hex()
        self.name = f"circlet-model-{self.key}"
        self._data = data

    def setup(self, worker: Worker) -> None:
        """Write the bytes into the worker's folder, which goes when the worker ends."""
        folder = Path(worker.local_directory)
        path = _path(folder, self.key)
        if not path.exists():
            temporary = os.fspath(folder / temporary_name(path.name))
            replace_file(temporary, os.fspath(path), self._data, 0o600)
        _FOLDER[:] = [folder]


def send_model(client: Client, data: bytes) -> str:
    """Have all workers keep a network; its hash, by which `model_on_worker` finds it."""
    plugin = ModelPlugin(data)
    client.register_plugin(plugin)
    return plugin.key


def model_on_worker(key: str) -> Path:
    """Where this worker keeps a network.

    Raises:
        FileError: It was never sent, or is gone.
    """
    path = _path(_FOLDER[0], key) if _FOLDER else None
    if path is None or not path.exists():
        raise FileError("a worker lacks the network", where=key, fix="start the search again")
    return path


def _path(folder: Path, key: str) -> Path:
    return folder / f"{key}.model"
