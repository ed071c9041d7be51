"""What the commands of `python -m bench` share: their list, their help, their errors."""

from __future__ import annotations

import argparse
from pathlib import Path

COMMANDS = {
    "against": "this Circlet against that of another checkout: latency, starts, memory, resizing",
    "explain": "where one network's time goes, kernel call by kernel call",
    "overhead": "what profiling costs: runs whose kernels are timed, beside others",
    "scaling": "time against resolution, batch, depth and threads",
    "disturbed": "latency beside a process that keeps one of the CPUs busy",
    "shares": "what of a network's time more threads can share, call by call",
    "bf16": "float networks with operands rounded to bfloat16",
    "compile_time": "time to compile against operators and distinct kernels",
    "opening": "how opening grows with a network, in each of many forms",
    "counts": "operators after O2, beside the graphs that LiteRT and ONNX Runtime run",
    "levels": "O2 beside O0, and optimised files beside the originals in LiteRT and ONNX Runtime",
    "optimize": "how optimising a file grows with a network, in each of many forms",
    "resize": "time to make networks ready for other input sizes",
    "executors": "partitions side by side beside partitions in turn",
    "bound_call": "what a call costs beside the network's work",
    "arm": "instructions on emulated Arm processors, beside LiteRT",
    "ops": "every operator alone beside the peers, the costliest losses first",
    "nnapi": "the Android Neural Networks API beside the file's door",
    "decode": "steps of a small language model beside the peers, and beside the memory",
    "kernels": "what one kernel of docs/kernels.md takes in its network",
    "pareto": "how many measurements searches for placements need",
    "opencl": "networks on an OpenCL device, beside its peaks, PyTorch and the backend cpu",
    "report": "makes docs/performance.md of a result",
}


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Text as it is written, and the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default else action.help


def parser(command: str, text: str | None, more: str = "") -> argparse.ArgumentParser:
    """A parser of a command's arguments that describes it by its module's text."""
    return argparse.ArgumentParser(
        f"python -m bench {command}".strip(), description=text, epilog=more, formatter_class=_Help
    )


def add_networks(to: argparse.ArgumentParser, default: str, pattern: str = "*") -> None:
    """Which networks to measure."""
    to.add_argument("paths", nargs="*", type=Path, help=f"networks or folders; else {default}")
    to.add_argument("--models", default=pattern, help="patterns of names, separated by commas")


def add_rounds(to: argparse.ArgumentParser, default: int) -> None:
    """How long to measure."""
    to.add_argument("--rounds", type=int, default=default, help="of engines in turn")


def add_loaded(to: argparse.ArgumentParser) -> None:
    """Whether figures of a loaded machine may stand on the page."""
    text = "go on while other processes use the CPUs; the page says so"
    to.add_argument("--loaded", action="store_true", help=text)


def add_threads(to: argparse.ArgumentParser, default: str = "1,2") -> None:
    """Which numbers of threads to measure."""
    to.add_argument("--threads", default=default, help="numbers, separated by commas")


def add_target(to: argparse.ArgumentParser, more: str = "") -> None:
    """What to compile for: kernels of another class of machine that this one runs, too."""
    text = f"machine to compile for, as `circlet compile --target`, such as x86_64_v3{more}"
    to.add_argument("--target", default="native", help=text)
