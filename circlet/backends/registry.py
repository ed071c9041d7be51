"""Backends by name: those of this package, and those that others install as entry points.

Another package adds one by an entry point of the group `circlet.backends`, whose name is the
backend's and whose object makes a `circlet.backends.base.Backend` when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from circlet.errors import BackendError, InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from circlet.backends.base import Backend

GROUP = "circlet.backends"
_OWN = {
    "cpu": ("circlet.backends.cpu.backend", "CpuBackend"),
    "reference": ("circlet.backends.reference.backend", "ReferenceBackend"),
    "litert": ("circlet.backends.litert.backend", "backend"),
    "openvino": ("circlet.backends.openvino.backend", "backend"),
    "opencl": ("circlet.backends.opencl.backend", "backend"),
    "onnxruntime": ("circlet.backends.onnxruntime.backend", "backend"),
}
_ENGINES = {
    "litert": ("ai_edge_litert", "ai-edge-litert"),
    "openvino": ("openvino", "openvino"),
    "opencl": ("pyopencl", "'circlet[opencl]'"),
    "onnxruntime": ("onnxruntime", "onnxruntime onnx"),
}


@lru_cache(maxsize=32)
def find_backend(name: str) -> Backend:
    """The backend of a name, imported when it is first asked for.

    Raises:
        InputError: There is no such backend.
    """
    made: Backend
    check_backend(name)
    if name in _OWN:
        module, factory = _OWN[name]
        made = getattr(import_module(module), factory)()
        return made
    return _loaded(next(entry for entry in _installed() if entry.name == name))


def check_backend(name: str) -> None:
    """See that a backend is installed, without importing it.

    Raises:
        InputError: There is no such backend, or its engine is not installed.
    """
    if name in _OWN and not _is_there(name):
        others = "" if name == "opencl" else ", or 'circlet[engines]' for all engines"
        fix = f"pip install {_ENGINES[name][1]}{others}"
        raise InputError("the engine of a backend is not installed", where=name, fix=fix)
    if name not in _OWN and all(entry.name != name for entry in _installed()):
        absent = [name for name in _OWN if not _is_there(name)]
        more = f"; with other packages also {', '.join(absent)}" if absent else ""
        fix = f"choose among {', '.join(backend_names())}{more}"
        raise InputError("there is no such backend", where=name, fix=fix)


def _is_there(name: str) -> bool:
    """Whether the package of an engine is installed; backends without one are always there."""
    if name not in _ENGINES:
        return True
    from importlib.util import find_spec

    return find_spec(_ENGINES[name][0]) is not None


def _loaded(entry: EntryPoint) -> Backend:
    try:
        made: Backend = entry.load()()
    except Exception as error:  # whatever another package's code raises
        raise BackendError(
            "an installed backend cannot be loaded",
            where=entry.name,
            why=f"{entry.value}: {type(error).__name__}: {error}",
            fix="mend or uninstall the package that provides it",
        ) from error
    return made


def backend_names() -> list[str]:
    """The names of all backends that are installed, those of this package first."""
    return list(dict.fromkeys([*filter(_is_there, _OWN), *(entry.name for entry in _installed())]))


def native_operators(facts: Mapping[str, Any]) -> tuple[int, int]:
    """How many operators of the file are native code, and how many it has, by an artifact's facts.

    Those that are left out or computed when the network is compiled are, too: nothing else runs.
    """
    count, by_backend = facts.get("operators", 0), facts.get("operators_of", {})
    others = (n for name, n in by_backend.items() if not find_backend(name).describe().is_native)
    return max(0, count - sum(others)), count


def _installed() -> Iterator[EntryPoint]:
    """Entry points of other packages; reading them takes a start longer than its own code."""
    from importlib.metadata import entry_points

    yield from entry_points(group=GROUP)
