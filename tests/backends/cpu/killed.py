"""Compiles a unit that takes a while, after saying so: to be killed by a test."""

from __future__ import annotations

import signal
import sys

from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.config import Config
from circlet.target.targets import native_target

LINE = '__attribute__((visibility("default"))) int f{n}(int x) {{ return x * {n} + (x >> 3); }}\n'


def main() -> None:
    """Compile two texts side by side, which takes a compiler longer than a test waits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of shells ignore it
    text = "".join(LINE.format(n=number) for number in range(60_000))
    units = [UnitSource(text + f"int last = {number};\n", native_target()) for number in range(2)]
    sys.stdout.write("compiling\n")
    sys.stdout.flush()
    compile_units(units, config=Config(cache_dir=sys.argv[1], cache_bytes=0))


if __name__ == "__main__":
    main()
