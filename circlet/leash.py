"""Processes that do not outlive whoever started them: the kernel ends them, however that comes."""

from __future__ import annotations

import fcntl
import os
import signal


def end_with_pipe(end: int, owner: int) -> None:
    """Have the kernel kill a process as soon as the other end of a pipe is closed.

    Args:
        end: The end that the process, or its group, reads from and never does.
        owner: Its id, or that of its group with a minus.

    Raises:
        ProcessLookupError: There is none.
    """
    fcntl.fcntl(end, fcntl.F_SETOWN, owner)
    fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC)
