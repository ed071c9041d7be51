"""Arm processors as both engines find them: what qemu emulates, and what Linux says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.emulated.emulator import Machine

_BASE = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_V82 = f"{_BASE} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
_CPUINFO = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: {features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: {part}
CPU revision\t: 0

"""


@dataclass(frozen=True)
class ArmCpu:
    """One class of processors.

    Attributes:
        name: What tables call it.
        machine: Circlet's target and qemu's processor.
        part: The number by which Linux names the processor; engines choose kernels by it.
        features: The names that Linux gives its instructions.
    """

    name: str
    machine: Machine
    part: str
    features: str

    def root(self, folder: Path) -> Path:
        """Make the folder in which qemu looks for the processor's files before those of the host.

        Without it programs read /proc/cpuinfo of the machine that emulates.
        """
        cpus = folder / "sys/devices/system/cpu"
        cpus.mkdir(parents=True)
        (folder / "proc").mkdir()
        (folder / "lib").symlink_to(self.machine.sysroot / "lib")
        for name in ("possible", "present", "kernel_max"):
            (cpus / name).write_text("0\n")
        text = _CPUINFO.format(features=self.features, part=self.part)
        (folder / "proc/cpuinfo").write_text(text)
        return folder


CPUS = (
    ArmCpu("v8.0", Machine("aarch64", "cortex-a53"), "0xd03", _BASE),
    ArmCpu("dotprod", Machine("aarch64+dotprod", "neoverse-n1"), "0xd0c", _V82),
    ArmCpu("i8mm", Machine("aarch64+i8mm", "max,sve=off,sme=off"), "0xd49", f"{_V82} i8mm bf16"),
)
"""From the Raspberry Pi 3 to servers and phones of today, without SVE."""
