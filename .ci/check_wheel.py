"""Builds the wheel, looks into it, and uses it from outside on every Python of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).resolve().parents[1]
GOOD = """\
import numpy as np
import circlet

session = circlet.load_artifact("sample.circlet")
image = np.zeros(session.inputs[0].shape, session.inputs[0].dtype)
outputs: dict[str, np.ndarray] = session.run([image])
version: str = circlet.__version__
"""
BAD = """\
import circlet

circlet.Session(3.5)
"""


def main() -> None:
    """Build from the source distribution, check what is in it, then install and run it."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", str(scratch), str(ROOT))
        (wheel,) = scratch.glob("*.whl")
        run("twine", "check", "--strict", *map(str, scratch.glob("circlet-*")))
        check_contents(wheel)
        artifact = scratch / "sample.circlet"
        run("circlet", "compile", "--target", "baseline,native", "-o", str(artifact))
        tried = [version for version in VERSIONS if try_wheel(version, wheel, artifact)]
        if not tried:
            sys.exit(f"none of Python {', '.join(VERSIONS)} was found")


def check_contents(wheel: Path) -> None:
    """Every file of the package is in the wheel, kernels' headers too, and nothing else is."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        others = {name.partition(".dist-info/")[2] for name in archive.namelist()} - {""}
    paths = (path for path in (ROOT / "circlet").rglob("*") if path.is_file())
    wanted = {str(p.relative_to(ROOT)) for p in paths if "__pycache__" not in p.parts}
    if held != wanted or not {"licenses/LICENSE", "entry_points.txt"} <= others:
        sys.exit(f"the wheel lacks {sorted(wanted - held)} and has besides {sorted(held - wanted)}")
    headers = sum(name.endswith(".h") for name in held)
    sys.stdout.write(f"{wheel.name}: {len(held)} files, {headers} of them headers of kernels\n")


def try_wheel(version: str, wheel: Path, artifact: Path) -> bool:
    """Install in a bare environment of a version, run, and check types; whether there is one."""
    python = find_python(version)
    if python is None:
        sys.stdout.write(f"Python {version}: not found here, not checked\n")
        return False
    folder = wheel.parent / f"venv-{version}"
    run(python, "-m", "venv", str(folder))
    run(str(folder / "bin/pip"), "install", "--quiet", str(wheel), cwd=wheel.parent)
    run(str(folder / "bin/pip"), "check", cwd=wheel.parent)
    run(str(folder / "bin/circlet"), "run", str(artifact), cwd=wheel.parent)
    check_types(folder, wheel.parent)
    sys.stdout.write(f"Python {version}: the wheel installs, runs an artifact and has types\n")
    return True


def check_types(environment: Path, folder: Path) -> None:
    """A user's program passes mypy and runs; one with a wrong type does not pass."""
    interpreter = str(environment / "bin/python")
    checks = {"good.py": GOOD, "bad.py": BAD}
    for name, text in checks.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = (sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable")
    run(*command, interpreter, "good.py", cwd=folder)
    run(interpreter, "good.py", cwd=folder)
    done = subprocess.run(
        [*command, interpreter, "bad.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 1 or "[arg-type]" not in done.stdout:
        sys.exit(f"mypy does not see the wheel's types:\n{done.stdout}{done.stderr}")


def find_python(version: str) -> str | None:
    """An interpreter of a version that really starts, or None."""
    versions = Path(os.environ.get("PYENV_ROOT", "")) / "versions"
    found = (shutil.which(f"python{version}"), *sorted(versions.glob(f"{version}.*/bin/python")))
    for candidate in filter(None, found):
        started = subprocess.run([candidate, "-V"], capture_output=True, check=False)
        if started.returncode == 0:
            return str(candidate)
    return None


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a command without this checkout on its path; stop at the first failure."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, check=True, cwd=cwd, env=environment)


if __name__ == "__main__":
    main()
