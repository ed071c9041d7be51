"""Compiles a network here for processors elsewhere, and says what the artifact holds.

    python examples/compile_for_a_board.py [MODEL [TARGETS]]

TARGETS are those of `circlet compile --target`, for example aarch64+dotprod or baseline,native.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from circlet.sample import Sample


def main(arguments: list[str]) -> None:
    """Make an artifact in a folder of its own and inspect it."""
    model = Path(arguments[0]) if arguments else Sample("int8").model_path
    targets = arguments[1] if arguments[1:] else "aarch64"
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / f"{model.stem}.circlet"
        circlet("compile", str(model), "-o", str(artifact), "--target", targets)
        circlet("inspect", str(artifact))
        print(f"copy {artifact.name} to the board, and there: circlet run {artifact.name}")


def circlet(*words: str) -> None:
    """Run a command of Circlet with this Python."""
    subprocess.run([sys.executable, "-m", "circlet", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
