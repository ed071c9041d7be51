"""Runs artifacts made for other processors under qemu's user mode, loaded with their own dlopen."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from circlet.artifact.file import Artifact, PartitionCode, TargetCode
from circlet.artifact.values import Value
from circlet.backends.cpu.c_compiler import find_compiler
from circlet.backends.cpu.toolchain import RUNTIME_DIR
from circlet.target.targets import parse_target

FOLDER = Path(__file__).parent
TIMEOUT_S = 600
# Architecture -> qemu's program, the triple of Debian's cross C library, and that of zig.
_ARCHES = {
    "aarch64": ("qemu-aarch64", "aarch64-linux-gnu", "aarch64-linux-gnu.2.34"),
    "armv7": ("qemu-arm", "arm-linux-gnueabihf", "arm-linux-gnueabihf.2.34"),
    "riscv64": ("qemu-riscv64", "riscv64-linux-gnu", "riscv64-linux-gnu.2.34"),
}
PACKAGES = "qemu-user libc6-arm64-cross libc6-armhf-cross libc6-riscv64-cross"


@dataclass(frozen=True)
class Machine:
    """An emulated processor that has what a target needs, and as little more as qemu offers."""

    target: str
    cpu: str
    oldest_qemu: int = 5

    @property
    def arch(self) -> str:
        """The architecture of the target."""
        return parse_target(self.target).arch

    @property
    def sysroot(self) -> Path:
        """Where Debian puts the C library of the architecture."""
        return Path("/usr") / _ARCHES[self.arch][1]

    @property
    def missing(self) -> str:
        """Why the machine cannot be emulated here, or nothing."""
        program = _ARCHES[self.arch][0]
        if shutil.which(program) is None:
            return f"there is no {program}: apt-get install {PACKAGES}"
        if major_version(program) < self.oldest_qemu:
            return f"{program} is older than version {self.oldest_qemu}, which runs {self.target}"
        if not (self.sysroot / "lib" / "libc.so.6").exists():
            return f"there is no C library in {self.sysroot}: apt-get install {PACKAGES}"
        return ""

    def command(self) -> list[str]:
        """What starts a program on the machine."""
        return [_ARCHES[self.arch][0], "-cpu", self.cpu, "-L", str(self.sysroot)]


MACHINES = (
    Machine("aarch64", "cortex-a57"),
    Machine("aarch64+dotprod", "neoverse-n1"),
    Machine("aarch64+i8mm", "max"),
    Machine("armv7+neon", "cortex-a8"),
    Machine("armv7+vfp4", "cortex-a15"),
    Machine("riscv64", "rv64"),
    Machine("riscv64+v", "rv64,v=true,vlen=128", oldest_qemu=8),  # 7 ends at vector conversions
)


@lru_cache(maxsize=8)
def major_version(program: str) -> int:
    """The first number of the release of a program of qemu's; 0 where it tells none."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)", done.stdout)
    return int(found[1]) if found else 0


def build_host(arch: str, path: Path, source: str = "host.c") -> Path:
    """Build the program that loads and runs parts; needs no file of the architecture's."""
    flags = ["-std=gnu11", "-O1", "-g0", "-Wall", "-Werror", "-fno-sanitize=all", "-rtlib=none"]
    target = ["-target", _ARCHES[arch][2], f"-I{RUNTIME_DIR}"]
    command = [*find_compiler().command, *target, *flags, str(FOLDER / source), "-o", str(path)]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return path


def run_emulated(
    artifact: Artifact,
    machine: Machine,
    host: Path,
    inputs: Sequence[np.ndarray],
    folder: Path,
    threads: int = 1,
    *,
    runs: int = 1,
    options: Sequence[str] = (),
    steps: bool = False,
) -> list[np.ndarray]:
    """The outputs of the last of some runs of a network that is one native partition.

    Args:
        artifact: Has code for the machine's target.
        machine: What is emulated.
        host: The program of `build_host`.
        inputs: In the network's order.
        folder: Is made; holds the program's files.
        threads: Threads of a run.
        runs: How often it runs.
        options: Further options of qemu.
        steps: Whether to mark every step of the runs.

    Raises:
        EmulationError: The network has several partitions, or the program ended with another
            status than 0.
    """
    values = [Value.from_json(fields) for fields in artifact.metadata["values"]]
    if len(artifact.metadata["partitions"]) != 1:
        raise EmulationError("the network is not one native partition")
    (part,) = artifact.metadata["partitions"]
    (code,) = _code_for(artifact, machine).partitions
    buffers = [_start(value) for value in values]
    for number, array in zip(artifact.metadata["inputs"], inputs, strict=True):
        buffers[number] = array
    folder.mkdir()
    _write_parts(folder, _code_for(artifact, machine).shared["cpu"], code)
    for side in ("input", "output"):
        for position, number in enumerate(part[f"{side}s"]):
            (folder / f"{side}{position}.bin").write_bytes(buffers[number].tobytes())
    counts = [threads, len(part["inputs"]), len(part["outputs"]), runs]
    words = [str(folder), *map(str, counts), *(["steps"] if steps else [])]
    run([*machine.command(), *options, str(host), *words])
    files = {number: folder / f"output{i}.bin" for i, number in enumerate(part["outputs"])}
    wanted = [(files[number], values[number]) for number in artifact.metadata["outputs"]]
    return [np.fromfile(path, value.dtype).reshape(value.shape) for path, value in wanted]


class EmulationError(Exception):
    """A program under qemu did not end well."""


def run(command: list[str]) -> str:
    """What a program prints.

    Raises:
        EmulationError: It ended with another status than 0, or took too long.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise EmulationError(f"took longer than {TIMEOUT_S} s") from error
    if done.returncode:
        raise EmulationError(f"status {done.returncode}: {done.stderr}")
    return done.stdout


def _code_for(artifact: Artifact, machine: Machine) -> TargetCode:
    return artifact.code(artifact.targets.index(parse_target(machine.target)))


def _start(value: Value) -> np.ndarray:
    """A buffer as a session makes it: zeros, or what the value starts as."""
    array = np.zeros(value.shape, value.dtype)
    if value.initial is not None:
        array.reshape(-1).view(np.uint8)[...] = np.frombuffer(value.initial, np.uint8)
    return array


def _write_parts(folder: Path, runtime: bytes | memoryview, code: PartitionCode) -> None:
    units = {f"unit{number}.so": unit for number, unit in enumerate(code.sections["units"])}
    plan = code.section("plan")
    rest = {"runtime.so": runtime, "plan.bin": plan, "constants.bin": code.constants}
    for name, data in (units | rest).items():
        (folder / name).write_bytes(data)


def available() -> tuple[Machine, ...]:
    """The machines that can be emulated here."""
    return tuple(machine for machine in MACHINES if not machine.missing)
