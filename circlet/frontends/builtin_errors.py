"""Coded errors that are also the built-in exceptions which users of other engines catch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlet.errors import CircletError

_JOINED: dict[tuple[type[CircletError], type[Exception]], type[CircletError]] = {}


@contextmanager
def raised_as(kind: type[Exception]) -> Iterator[None]:
    """Have every `CircletError` of the block also be an instance of `kind`."""
    try:
        yield
    except CircletError as error:
        raise also(error, kind) from error.__cause__


def also(error: CircletError, kind: type[Exception]) -> CircletError:
    """The error with its code, message and class, that is an instance of `kind` besides."""
    if isinstance(error, kind):
        return error
    both = _joined(type(error), kind)
    joined = both.__new__(both)
    joined.__dict__.update(error.__dict__)
    joined.args = error.args
    return joined


def _joined(error: type[CircletError], kind: type[Exception]) -> type[CircletError]:
    """A class with both as bases; pickled as the coded one, which other processes know."""
    known = _JOINED.get((error, kind))
    if known is not None:
        return known

    def reduce(self: CircletError) -> tuple[object, ...]:
        plain = error.__new__(error)
        plain.__dict__.update(self.__dict__)
        return plain.__reduce__()

    body = {"__reduce__": reduce, "__doc__": error.__doc__, "__module__": error.__module__}
    joined: type[CircletError] = type(error.__name__, (error, kind), body)
    _JOINED[error, kind] = joined
    return joined
