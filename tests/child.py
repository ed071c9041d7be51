"""The environment of Python programs that tests start as processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(*folders: Path, **changes: str) -> dict[str, str]:
    """This process's environment with changes, in which Python imports from these folders first.

    Without folders, from this checkout. What PYTHONPATH named before is found behind them: where
    dependencies were installed into a folder of their own, only that says where.
    """
    paths = [*map(str, folders or (ROOT,)), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **changes}
