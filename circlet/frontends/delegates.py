"""LiteRT's delegates and compiled custom operators, refused where LiteRT refuses them.

Both are machine code that works on LiteRT's own structures, which Circlet does not have. What a
script does where they cannot be had, it does here too.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence

from circlet.errors import FileError, InputError
from circlet.frontends.builtin_errors import also
from circlet.frontends.interpreter import Interpreter

_ENTRY = "tflite_plugin_create_delegate"


class Delegate:
    """Refuses: a delegate of LiteRT cannot run inside Circlet.

    Args:
        library: Name or path of a shared library, which is loaded, as LiteRT does.
        options: What the delegate is to be told; read by nobody.

    Raises:
        OSError: There is no such library, or it cannot be loaded.
        AttributeError: It makes no delegates.
        ValueError: It does.
    """

    def __init__(
        self, library: str | os.PathLike[str], options: Mapping[str, object] | None = None
    ) -> None:
        del options
        raise _refused(os.fspath(library))


def load_delegate(
    library: str | os.PathLike[str], options: Mapping[str, object] | None = None
) -> Delegate:
    """Refuses as `Delegate`, so that scripts go on without, as where the device is not there."""
    del options
    name = os.fspath(library)
    raise _refused(name, f"Failed to load delegate from {name}")


def _refused(library: str, sentence: str = "") -> Exception:
    try:
        loaded = ctypes.PyDLL(library)
    except OSError as error:
        coded: Exception = FileError(
            "a delegate's library cannot be loaded", where=library, why=str(error)
        )
        return also(coded, OSError, str(error))  # type: ignore[arg-type]
    if not hasattr(loaded, _ENTRY):
        why = f"it has no function {_ENTRY}"
        lacking = InputError("a library makes no delegates", where=library, why=why)
        return also(lacking, AttributeError, f"{library}: undefined symbol: {_ENTRY}")
    return also(
        InputError(
            "LiteRT's delegates cannot be used",
            where=library,
            why="they run inside LiteRT's interpreter",
            fix="leave it out: Circlet compiles the network for this CPU",
        ),
        ValueError,
        sentence,
    )


class InterpreterWithCustomOps(Interpreter):
    """An `Interpreter` for networks with custom operators.

    The operators are those that `circlet.register_op` was told. LiteRT's are registered by compiled
    functions in a table of its own, which Circlet has not.

    Args:
        custom_op_registerers: Must be None or empty.
        **arguments: Those of `Interpreter`.

    Raises:
        ValueError: A registerer is given, or as `Interpreter`.
    """

    def __init__(
        self,
        custom_op_registerers: Sequence[str | Callable[[int], None]] | None = None,
        **arguments: object,
    ) -> None:
        for registerer in custom_op_registerers or ():
            raise _no_registerer(registerer)
        super().__init__(**arguments)  # type: ignore[arg-type]


def _no_registerer(registerer: str | Callable[[int], None]) -> Exception:
    name = registerer if isinstance(registerer, str) else repr(registerer)
    error = InputError(
        "LiteRT's custom operators cannot be registered",
        where=f"custom_op_registerers: {name}",
        why="their compiled code works on LiteRT's structures",
        fix="teach the operator with circlet.register_op, docs/adding-a-custom-operator.md",
    )
    why = "Circlet has no table of LiteRT's operators"
    return also(error, ValueError, f"Looking up symbol '{name}' failed with error '{why}'.")
