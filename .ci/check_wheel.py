"""Builds the wheel and runs an artifact with it on every Python that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")


def main() -> None:
    """Build once, compile the sample once, then run that artifact on each version found."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", str(scratch))
        wheel = next(scratch.glob("*.whl"))
        artifact = scratch / "sample.circlet"
        run("circlet", "compile", "--target", "baseline,native", "-o", str(artifact))
        for version in VERSIONS:
            python = find_python(version)
            if python is None:
                sys.stdout.write(f"Python {version}: not found here, not checked\n")
                continue
            environment = scratch / f"venv-{version}"
            run(python, "-m", "venv", str(environment))
            run(str(environment / "bin/pip"), "install", "--quiet", str(wheel))
            run(str(environment / "bin/circlet"), "run", str(artifact))
            sys.stdout.write(f"Python {version}: the wheel installs and runs an artifact\n")


def find_python(version: str) -> str | None:
    """An interpreter of a version that really starts, or None."""
    versions = Path(os.environ.get("PYENV_ROOT", "")) / "versions"
    found = (shutil.which(f"python{version}"), *sorted(versions.glob(f"{version}.*/bin/python")))
    for candidate in filter(None, found):
        started = subprocess.run([candidate, "-V"], capture_output=True, check=False)
        if started.returncode == 0:
            return str(candidate)
    return None


def run(*command: str) -> None:
    """Run a command; stop at the first failure."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
