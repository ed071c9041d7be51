"""The settings that come from the environment; no other file reads it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from functools import lru_cache

from circlet.errors import InputError
from circlet.struct import Struct

DEFAULT_CACHE_BYTES = 2 << 30
_MOST_DIGITS = 18


class Config(Struct):
    """Where Circlet keeps things and which tools it calls.

    | variable | meaning | default |
    |---|---|---|
    | `CIRCLET_CC` | C compiler command, used in place of the `ziglang` package | none |
    | `CIRCLET_CACHE_DIR` | folder of compiled artifacts | `~/.cache/circlet` |
    | `CIRCLET_CACHE_BYTES` | size to which the cache is pruned; 0 switches the cache off | 2 GiB |
    | `CIRCLET_LOG` | level of the logger: debug, info, warning, error | warning |
    | `CIRCLET_THREADS` | threads of a session that names no number | cores that may be used |
    | `CIRCLET_OPENCL_DEVICE` | index of an OpenCL device, or a part of its name | the first GPU |
    | `CIRCLET_ONE_ENV` | 1 to heed the variables of ONE's runtime, `heeds_one` | 0 |
    | `CIRCLET_EXECUTOR` | executor of a session that names none | linear, or the artifact's |
    """

    compiler: str = ""
    cache_dir: str | os.PathLike[str] | None = None
    cache_is_chosen: bool = False
    cache_bytes: int = DEFAULT_CACHE_BYTES
    log_level: str = "warning"
    threads: int = 0
    opencl_device: str = ""
    executor: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Config:
        """The settings of this process's environment, or of the mapping given."""
        env = os.environ if environment is None else environment
        return cls(
            compiler=env.get("CIRCLET_CC", "").strip(),
            cache_dir=_cache_dir(env),
            cache_is_chosen=bool(env.get("CIRCLET_CACHE_DIR")),
            cache_bytes=_count(env, "CIRCLET_CACHE_BYTES", DEFAULT_CACHE_BYTES),
            log_level=env.get("CIRCLET_LOG", "warning").lower() or "warning",
            threads=_count(env, "CIRCLET_THREADS", 0),
            opencl_device=env.get("CIRCLET_OPENCL_DEVICE", "").strip(),
            executor=env.get("CIRCLET_EXECUTOR", "").strip(),
        )

    def cache_folder(self) -> str:
        """The folder of the cache; a private one in the temporary folder where there is no home."""
        return os.fspath(self.cache_dir) if self.cache_dir else temporary_cache_folder()


def variables(
    wanted: Callable[[str], bool], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of some names that are set and not empty, in this process's environment."""
    env = os.environ if environment is None else environment
    return {name: text for name, text in env.items() if text and wanted(name)}


def heeds_one(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the variables of ONE's runtime count, whose names are common words.

    Raises:
        InputError: `CIRCLET_ONE_ENV` is neither 0 nor 1.
    """
    env = os.environ if environment is None else environment
    wanted = env.get("CIRCLET_ONE_ENV", "").strip() or "0"
    if wanted not in ("0", "1"):
        raise InputError(
            "CIRCLET_ONE_ENV is a switch",
            where="environment variable CIRCLET_ONE_ENV",
            why=f"its value is {wanted[:80]!r}",
            fix="set it to 1 to heed ONE's variables, or to 0",
        )
    return wanted == "1"


def temporary_folder() -> str:
    """The folder of temporary files; one that cannot be used is an error for whoever writes."""
    import tempfile

    try:
        return tempfile.gettempdir()
    except OSError:  # no candidate can be written, or the working folder is gone
        return os.environ.get("TMPDIR") or "/tmp"


def temporary_cache_folder() -> str:
    """The fallback cache of this user, in the temporary folder.

    Where somebody else has taken its name, a folder of this process alone.
    """
    folder = os.path.join(temporary_folder(), f"circlet-{os.getuid()}")
    try:
        facts = os.lstat(folder)
    except OSError:  # it can be made, or the error comes where that is tried
        return folder
    if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
        return folder
    return _own_folder_beside(folder)


def _own_folder_beside(taken: str) -> str:
    from circlet.scratch import folder_of_process

    try:
        folder = folder_of_process()
    except OSError:
        return taken
    _warn_of_taken(taken, folder)
    return folder


@lru_cache(maxsize=8)
def _warn_of_taken(taken: str, folder: str) -> None:
    import logging

    message = "%s is not yours, so compiled models are kept for this process only, in %s"
    logging.getLogger("circlet.cache").warning(message, taken, folder)


def compiler_environment(**changes: str) -> dict[str, str]:
    """The environment that compilers are started in: this process's with some changes."""
    return {**os.environ, "LC_ALL": "C", **changes}


def _cache_dir(env: Mapping[str, str]) -> str | None:
    if chosen := env.get("CIRCLET_CACHE_DIR"):
        return _absolute(os.path.expanduser(chosen))
    if shared := env.get("XDG_CACHE_HOME"):
        return _absolute(os.path.join(shared, "circlet"))
    home = env.get("HOME")
    return _absolute(os.path.join(home, ".cache", "circlet")) if home else None


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the working folder is gone; so is whatever lay in it
        return path


def _count(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise InputError(
            f"{name} is not a number",
            where=f"environment variable {name}",
            why=f"its value is {text[:80]!r}",
            fix=f"set it to a whole number of 0 or more, of up to {_MOST_DIGITS} digits",
        )
    return int(text)
