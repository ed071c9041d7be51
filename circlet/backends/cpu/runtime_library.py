"""The runtime library of a target: built by the first compilation of all, kept for the others."""

from __future__ import annotations

from functools import lru_cache

from circlet.artifact.cache import cache_key
from circlet.artifact.file import TargetCode
from circlet.artifact.writer import artifact_bytes
from circlet.backends.cpu.toolchain import compile_unit, compiler_cache, compiler_identity
from circlet.config import Config
from circlet.target.targets import Target

_SHARED = "cpu"
_TEXT = '#include "circlet_runtime.c"\n'


def plain_target(target: Target) -> Target:
    """What the runtime library of a target is built for.

    It has no optional features, so that sessions of different targets share one library and its
    thread pool.
    """
    return Target.of(target.arch)


def runtime_image(plain: Target, config: Config | None = None) -> bytes:
    """The shared object for a plain target; kept among the compiler's files, as it is no network.

    Without a cache it is built once in a process. Raises as `compile_unit`.
    """
    config = config or Config.from_environment()
    if not config.cache_bytes:
        return _built_once(plain, config, compiler_identity(config))

    def build() -> bytes:
        image = compile_unit(_TEXT, plain, config=config)
        return artifact_bytes({"key": key}, [TargetCode(str(plain), (), {_SHARED: image})])

    key = cache_key("runtime", str(plain), compiler_identity(config))
    return bytes(compiler_cache(config).load(key, build).artifact.code(0).shared[_SHARED])


@lru_cache(maxsize=8)
def _built_once(plain: Target, config: Config, compiler: str) -> bytes:
    """The shared object made by the compiler of an identity."""
    return compile_unit(_TEXT, plain, config=config)
