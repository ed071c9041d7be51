"""What a fork waits for, and what a forked child renews: only the thread that forks lives on in it.

Importing this module registers both; it is on the path of every start and imports little.
"""

from __future__ import annotations

import _imp
import os
import sys
import time
import weakref
from _thread import RLock, get_ident
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType
    from typing import Protocol

    class Renewable(Protocol):
        """What a child cannot use as other threads left it, such as a lock that nobody opens."""

        def renew_after_fork(self) -> None:
            """Make it usable again; only one thread runs."""


_LONGEST_WAIT_S = 30.0
_PAUSE_S = 0.001
_WAITED_FOR = {"circlet", "numpy", "ml_dtypes", "PIL", "click", "rich", *sys.stdlib_module_names}

_renewables: weakref.WeakSet[Renewable] = weakref.WeakSet()
_kept_from_children: set[int] = set()
_forkers: set[int] = set()
_undivided = RLock()


def undivided() -> RLock:
    """A lock whose holder no fork interrupts, for what takes milliseconds.

    Code that is being mapped has locks that a child could not open, and a process that is being
    started has pipes that a child would hold open.
    """
    return _undivided


def renew_in_children(thing: Renewable) -> None:
    """Have every child of this process renew a thing that still lives then."""
    _renewables.add(thing)


def wait_for_imports_of(package: str) -> None:
    """Have forks wait while another thread imports a package that is about to be imported."""
    _WAITED_FOR.add(package)


def keep_from_children(descriptor: int) -> None:
    """Have every child close a descriptor whose closing here means something to others."""
    _kept_from_children.add(descriptor)


def close_here(descriptor: int) -> None:
    """Close a descriptor that was kept from children."""
    _kept_from_children.discard(descriptor)
    os.close(descriptor)


def _before() -> None:
    """Take the locks while nothing is imported; what is under way goes on until then."""
    until = time.monotonic() + _LONGEST_WAIT_S
    while not _held():
        if time.monotonic() > until:
            return
        _pause()
    _forkers.add(get_ident())


def _pause() -> None:
    """Sleep without the lock of `logging`.

    What that module does before a fork is done already where it was imported after this one, and
    modules that other threads are importing take the lock.
    """
    lock: Any = getattr(sys.modules.get("logging"), "_lock", None)
    is_held = lock is not None and lock._is_owned()
    if is_held:
        lock.release()
    time.sleep(_PAUSE_S)
    if is_held:
        lock.acquire()


def _held() -> bool:
    """Take both locks if nothing stands against a fork now; without the second no import starts."""
    if not _undivided.acquire(blocking=False):
        return False
    _imp.acquire_lock()
    if _importing():
        _imp.release_lock()
        _undivided.release()
        return False
    return True


def _importing() -> bool:
    """Whether another thread imports a module: a child would wait for that thread for ever."""
    own = {frame.f_globals.get("__name__") for frame in _frames()}
    return any(
        getattr(getattr(module, "__spec__", None), "_initializing", False) and name not in own
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in _WAITED_FOR
    )


def _frames() -> Iterator[FrameType]:
    """The calls of this thread: modules among them are its own to import."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _after_in_parent() -> None:
    if get_ident() in _forkers:
        _forkers.discard(get_ident())
        _imp.release_lock()
        _undivided.release()


def _after_in_child() -> None:
    global _undivided
    _after_in_parent()
    _forkers.clear()
    _undivided = RLock()
    for descriptor in _kept_from_children:
        try:
            os.close(descriptor)
        except OSError:
            continue
    _kept_from_children.clear()
    for thing in list(_renewables):
        thing.renew_after_fork()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
