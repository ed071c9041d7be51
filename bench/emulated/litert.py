"""LiteRT's library for aarch64: from its Python package, run by a small program of our own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from bench.emulated.arm import ArmCpu
from bench.emulated.emulator import EmulationError, run

_PACKAGE = "ai-edge-litert"
_LIBRARY = "ai_edge_litert/libLiteRt.so"
_PLATFORMS = ("manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")


@dataclass(frozen=True)
class LiteRt:
    """The library, unpacked.

    Attributes:
        library: Its file.
        version: Of the package.
    """

    library: Path
    version: str


def unpacked(wheel: Path | None, folder: Path) -> LiteRt:
    """The library of a wheel; without one pip downloads that of the release installed here.

    Raises:
        EmulationError: There is no such wheel, or no such library in it.
    """
    wheel = wheel or _downloaded(folder)
    try:
        with zipfile.ZipFile(wheel) as files:
            library = Path(files.extract(_LIBRARY, folder))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EmulationError(f"{wheel} holds no {_LIBRARY}: {error}") from error
    return LiteRt(library, wheel.name.split("-")[1])


def _downloaded(folder: Path) -> Path:
    try:
        wanted = f"{_PACKAGE}=={metadata.version(_PACKAGE)}"
    except metadata.PackageNotFoundError:
        wanted = _PACKAGE
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    command = [sys.executable, "-m", "pip", "download", wanted, "--no-deps", "-q", *platforms]
    done = subprocess.run(
        [*command, "--only-binary=:all:", "-d", str(folder)], capture_output=True, text=True
    )
    found = sorted(folder.glob("*aarch64.whl"))
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
        raise EmulationError(f"pip does not download LiteRT for aarch64: {reason}")
    return found[0]


def run_litert(
    litert: LiteRt,
    cpu: ArmCpu,
    host: Path,
    model: Path,
    inputs: Mapping[str, np.ndarray],
    folder: Path,
    *,
    runs: int,
    options: Sequence[str],
) -> dict[str, bytes]:
    """The bytes of each output after some runs by LiteRT's default delegate on one thread.

    Args:
        litert: The library.
        cpu: What is emulated.
        host: The program built of `litert.c`.
        model: A .tflite file.
        inputs: By the names of the network's tensors.
        folder: Is made; holds the program's files.
        runs: How often it runs.
        options: Further options of qemu, among them where it finds the processor's files.

    Returns:
        Bytes by the names of the network's tensors, in the order of its signature.

    Raises:
        EmulationError: LiteRT does not run the network.
    """
    folder.mkdir()
    for number, array in enumerate(inputs.values()):
        (folder / f"input{number}.bin").write_bytes(array.tobytes())
    words = [str(litert.library), str(model.resolve()), str(folder), str(runs), *inputs]
    printed = run([*cpu.machine.command(), *options, str(host), *words])
    names = printed.splitlines()
    return {name: (folder / f"output{i}.bin").read_bytes() for i, name in enumerate(names)}
