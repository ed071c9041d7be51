"""What a sanitizer adds to flags, environment and the layout of memory."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

NOTE_BYTES = 512


@dataclass(frozen=True)
class Mode:
    """One way to run generated code so that what it does wrong ends the process.

    Attributes:
        at_end: Whether tensors end where accessible memory does, or start where it starts.
        flags: Further flags of the C compiler.
        gcc: Whether only GCC and its library can do it.
    """

    at_end: bool
    flags: tuple[str, ...] = ()
    gcc: bool = False

    @property
    def missing(self) -> str:
        """Why it cannot be done here, or nothing."""
        if self.gcc and not asan_library():
            return "there is no gcc with AddressSanitizer's library"
        return ""

    def environment(self) -> dict[str, str]:
        """Variables of the process that runs the code."""
        if not self.gcc:
            return {}
        options = "detect_leaks=0:abort_on_error=0:exitcode=99:handle_segv=1"
        return {"CIRCLET_CC": "gcc", "LD_PRELOAD": asan_library(), "ASAN_OPTIONS": options}


_CHECKS = "undefined,float-cast-overflow"
# These take the compiler five times as long, and guard pages see what they are about.
_LEFT_OUT = "pointer-overflow,null,object-size"
_UNDEFINED = (
    "-O1",
    f"-fsanitize={_CHECKS}",
    f"-fno-sanitize={_LEFT_OUT}",
    f"-fsanitize-trap={_CHECKS}",
)
_ADDRESS = ("-O1", "-fsanitize=address", "--param=asan-instrumentation-with-call-threshold=0")
MODES = {
    "guard": Mode(at_end=True),
    "ubsan": Mode(at_end=False, flags=_UNDEFINED),
    "asan": Mode(at_end=False, flags=_ADDRESS, gcc=True),
}


@lru_cache(maxsize=1)
def asan_library() -> str:
    """Path of AddressSanitizer's library for GCC, or nothing."""
    if shutil.which("gcc") is None:
        return ""
    ask = ["gcc", "-print-file-name=libasan.so"]
    found = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    return found if Path(found).is_absolute() else ""
