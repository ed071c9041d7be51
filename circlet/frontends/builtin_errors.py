"""Coded errors that are also the built-in exceptions which users of other engines catch.

Their text begins with the other engine's sentence, where it has one that scripts look for, and goes
on with ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlet.errors import CircletError
from circlet.escape import escaped

_BUILTIN = (AttributeError, OSError, OverflowError, RuntimeError, TypeError, ValueError)
_JOINED: dict[tuple[type[CircletError], type[Exception]], type[CircletError]] = {}


@contextmanager
def raised_as(kind: type[Exception], sentence: str = "") -> Iterator[None]:
    """Have every `CircletError` of the block also be an instance of `kind`.

    Args:
        kind: The class; errors that are instances of a built-in one already stay as they are.
        sentence: What the text begins with.
    """
    try:
        yield
    except CircletError as error:
        raise also(error, kind, sentence) from error.__cause__


def also(error: CircletError, kind: type[Exception], sentence: str = "") -> CircletError:
    """The error with its code and class, that is an instance of `kind` besides."""
    if isinstance(error, _BUILTIN):
        return error
    return _joined_error(type(error), kind, dict(error.__dict__), sentence)


def _joined_error(
    error: type[CircletError], kind: type[Exception], state: dict[str, object], sentence: str
) -> CircletError:
    """An error of both classes; pickled as a call of this function."""
    joined_class = _joined(error, kind)
    joined = joined_class.__new__(joined_class)
    joined.__dict__.update(state)
    joined.__dict__["sentence"] = sentence
    text = joined.render()
    joined.args = (f"{escaped(sentence)}\n{text}" if sentence else text,)
    return joined


def _joined(error: type[CircletError], kind: type[Exception]) -> type[CircletError]:
    known = _JOINED.get((error, kind))
    if known is not None:
        return known

    def reduce(self: CircletError) -> tuple[object, ...]:
        state = dict(self.__dict__)
        return _joined_error, (error, kind, state, state.pop("sentence"))

    body = {"__reduce__": reduce, "__doc__": error.__doc__, "__module__": error.__module__}
    joined: type[CircletError] = type(error.__name__, (error, kind), body)
    _JOINED[error, kind] = joined
    return joined
