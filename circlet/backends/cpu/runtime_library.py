"""The runtime library of a target: built by the first compilation of all, kept for the others."""

from __future__ import annotations

from circlet.artifact.cache import cache_key
from circlet.artifact.file import TargetCode
from circlet.artifact.writer import artifact_bytes
from circlet.backends.cpu.processes import Compilers
from circlet.backends.cpu.toolchain import compile_unit, compiler_cache, compiler_identity
from circlet.config import Config
from circlet.target.targets import Target

_SHARED = "cpu"
_TEXT = '#include "circlet_runtime.c"\n'
_BUILT: dict[tuple[Target, str], bytes] = {}  # in this process, by target and compiler


def plain_target(target: Target) -> Target:
    """What the runtime library of a target is built for.

    It has no optional features, so that sessions of different targets share one library and its
    thread pool.
    """
    return Target.of(target.arch)


def runtime_image(
    plain: Target, config: Config | None = None, compilers: Compilers | None = None
) -> bytes:
    """The shared object for a plain target; kept among the compiler's files, as it is no network.

    Without a cache it is built once in a process. Raises as `compile_unit`.
    """
    config = config or Config.from_environment()
    if not config.cache_bytes:
        known = plain, compiler_identity(config)
        if known not in _BUILT:
            _BUILT[known] = compile_unit(_TEXT, plain, config=config, compilers=compilers)
        return _BUILT[known]

    def build() -> bytes:
        image = compile_unit(_TEXT, plain, config=config, compilers=compilers)
        return artifact_bytes({"key": key}, [TargetCode(str(plain), (), {_SHARED: image})])

    key = cache_key("runtime", str(plain), compiler_identity(config))
    return bytes(compiler_cache(config).load(key, build).artifact.code(0).shared[_SHARED])
