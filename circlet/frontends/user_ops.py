"""`register_op`: custom operators in Python, with C where numpy is too slow."""

from __future__ import annotations

import re
from collections.abc import Callable

from circlet.errors import InputError, check_type
from circlet.formats.options import register_custom_options, unregister_custom_options
from circlet.ops import CFunction, find, register, unregister
from circlet.ops.user import Infer, ParseOptions, Run, UserAttrs, UserOp
from circlet.user_codes import add_user_code, forget_user_code, is_user_code

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Registration:
    """A registered operator; `unregister` it, or use it as a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name

    def unregister(self) -> None:
        """Forget the operator; sessions that are open cannot run it any more."""
        _forget(self.name)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *error: object) -> None:
        self.unregister()


def register_op(
    name: str,
    infer: Infer,
    run: Run,
    *,
    options: ParseOptions | None = None,
    c_source: str = "",
    c_function: str = "",
) -> Registration:
    """Teach Circlet a custom operator for the rest of the process.

    Args:
        name: The operator's custom code in model files.
        infer: `infer(inputs, options)` gives one (numpy dtype, sizes) per output, from inputs with
            `dtype`, `shape` (None where unknown), `data` (constants), `scale` and `zero_point`;
            an omitted input is None.
        run: `run(arrays, options)` gives the outputs as numpy arrays (one, or a sequence).
        options: Reads the file's option bytes; by default they are handed on as they are.
            `circlet.flexbuffer` reads the form that TFLite's converter writes.
        c_source: C that defines `static void c_function(const void *const *inputs,
            void *const *outputs, const int64_t *elements, const void *options,
            int64_t options_bytes)`, for native code. It is freestanding: no libc, no writable
            globals. Arrays are dense; `elements` counts those of each input, then each output.
        c_function: Name of that function.

    Raises:
        InputError: The name is taken by an operator of Circlet's, or the C function has no name.

    Registering a name again replaces what was registered before.
    """
    label = f"CUSTOM:{name}"
    check_type(name, str, "name", "the operator's custom code")
    check_type(c_source, str, "c_source", "C source")
    check_type(c_function, str, "c_function", "the name of a function")
    _check(name, label, infer, run, options or bytes)
    if bool(c_source) != bool(_IDENTIFIER.fullmatch(c_function)):
        raise InputError(
            "C source and the name of its function go together",
            where=name,
            why=f"c_function is {c_function!r}",
        )
    _forget(name)
    native = CFunction(c_source, c_function) if c_source else None
    register(UserOp(name, infer, run, options or bytes, native).record())
    register_custom_options(name, UserAttrs)
    add_user_code(name)
    return Registration(name)


def _check(name: str, label: str, *functions: Callable[..., object]) -> None:
    if not name:
        raise InputError("a custom operator needs a name", where="name")
    if not all(map(callable, functions)):
        raise InputError("infer, run and options must be functions", where=name)
    if find(label) is not None and not is_user_code(name):
        raise InputError("Circlet has an operator of this name already", where=name)


def _forget(name: str) -> None:
    if is_user_code(name):
        unregister(f"CUSTOM:{name}")
        unregister_custom_options(name)
        forget_user_code(name)
