"""What `circlet --version` tells besides the version: what a report of a defect needs."""

from __future__ import annotations

import platform

import numpy as np

from circlet import __version__
from circlet.artifact.file import VERSION as ARTIFACT_VERSION
from circlet.backends.registry import find_backend
from circlet.errors import CircletError
from circlet.options import DEFAULT_BACKENDS
from circlet.target.host import host_architecture


def build_facts() -> dict[str, str]:
    """Versions of what takes part, and which compilers are found; starts no process."""
    facts = {
        "circlet": __version__,
        "artifacts": f"version {ARTIFACT_VERSION}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.release()}, {host_architecture()}",
    }
    for name in DEFAULT_BACKENDS:
        backend = find_backend(name)
        if not backend.describe().is_native:
            continue
        facts[f"{name} runtime"] = f"ABI {backend.describe().abi}"
        try:
            facts[f"{name} compiler"] = backend.toolchain()
        except CircletError as error:
            facts[f"{name} compiler"] = f"none: {error.why}"
    return facts
