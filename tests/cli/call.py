"""Calls the program inside the process, or as a user's shell does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from circlet.cli import group


def circlet(*arguments: object) -> Result:
    """One call inside this process; an error without a code fails the test."""
    result = CliRunner().invoke(group, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def as_json(*arguments: object, code: int = 0) -> Any:
    """What `--json` prints."""
    result = circlet(*arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def in_shell(
    *arguments: object, into: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """One call as a process of its own, its standard output into a file where one is named."""
    command = [sys.executable, "-m", "circlet", *map(str, arguments)]
    with Path(into).open("w") if into else nullcontext(subprocess.PIPE) as output:
        return subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            env={**os.environ, **environment},
        )
