"""What ONNX Runtime calls logging: severities, over the loggers of this package."""

from __future__ import annotations

import logging
from collections.abc import Callable

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also

Callback = Callable[[int, str, str, str, str], object]
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_LEGEND = "0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal"
_LOGGER = logging.getLogger("circlet")
_HANDLERS: list[_CallbackHandler] = []


class _CallbackHandler(logging.Handler):
    """Hands records to a function of severity, category, log id, place and message."""

    def __init__(self, callback: Callback) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        severity = sum(record.levelno > level for level in _LEVELS)
        place = f"{record.filename}:{record.lineno} {record.funcName}"
        try:
            self._callback(min(severity, 4), record.name, "", place, record.getMessage())
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the base's name
        """Nothing: a function that fails is not told of by itself."""


def set_default_logger_severity(severity: int) -> None:
    """Log what is at least as severe: 0 everything, 1 information, 2 warnings, 3 errors, 4 fatal.

    Raises:
        RuntimeError: It is none of these.
    """
    _LOGGER.setLevel(_LEVELS[_checked(severity)])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted, and changes nothing here: there are no finer levels than "everything"."""


def set_default_logger_callback(callback: Callback | None, severity: int = 2) -> None:
    """Hand what is logged to a function instead; None ends that.

    Args:
        callback: Takes severity, category, log id, place in the code, and message.
        severity: As `set_default_logger_severity`.

    Raises:
        RuntimeError: The severity is none, or the callback cannot be called.
    """
    checked = _checked(severity)
    _check_callable(callback)
    while _HANDLERS:
        _LOGGER.removeHandler(_HANDLERS.pop())
    _LOGGER.propagate = callback is None
    if callback is not None:
        _HANDLERS.append(_CallbackHandler(callback))
        _LOGGER.addHandler(_HANDLERS[0])
        _LOGGER.setLevel(_LEVELS[checked])


def _check_callable(callback: object) -> None:
    if callback is not None and not callable(callback):
        error = InputError.mistyped("callback", callback, "a function or None")
        raise also(error, RuntimeError, "callback must be callable or None")


def _checked(severity: int) -> int:
    if severity not in range(len(_LEVELS)):
        error = InputError("there is no such severity", where=repr(severity), fix=_LEGEND)
        raise also(error, RuntimeError, f"Invalid logging severity. {_LEGEND}")
    return severity
