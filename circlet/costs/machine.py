"""The fingerprint of the machine that costs were measured on."""

from __future__ import annotations

import json
import os
import platform
from functools import lru_cache
from pathlib import Path

from circlet.artifact.digest import digest
from circlet.target.host import host_model, host_words
from circlet.target.threads import usable_cores

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@lru_cache(maxsize=1)
def machine_facts() -> dict[str, object]:
    """What times depend on: the processor, its features, usable cores, governor, memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": host_model(),
        "features": " ".join(sorted(host_words())),
        "cores": usable_cores(),
        "governor": governor(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


@lru_cache(maxsize=1)
def machine_fingerprint() -> str:
    """A name that differs where a fact of the machine differs."""
    return digest(json.dumps(machine_facts(), sort_keys=True).encode()).hex()


def governor() -> str:
    """How the system sets the clock of the first core, "unknown" where it does not say."""
    try:
        return _GOVERNOR.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return "unknown"
