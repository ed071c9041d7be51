"""Tokens and plain values of the text form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np

from circlet.errors import FormatError

MOST_NESTING = 32
REFERENCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|//[^\n]*)
    |(?P<newline>\n)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<bytes>x"[0-9a-f]*")
    |(?P<reference>%(?:[0-9]{1,9}|[A-Za-z_][A-Za-z0-9_./-]*))
    |(?P<payload>\$[0-9]{1,9})
    |(?P<position>@[0-9]{1,9})
    |(?P<number>-?(?:(?:inf|nan)\b|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>->|\.\.\.|[()\[\]{},:=?*+])""",
    re.VERBOSE,
)
_WORDS = {None: "none", True: "true", False: "false"}
_CONSTANTS = {"none": None, "true": True, "false": False}
Item = TypeVar("Item")


@dataclass(frozen=True)
class Token:
    """One token: its kind (a group of the token pattern), its text and where it starts."""

    kind: str
    text: str
    offset: int


class Cursor:
    """Walks over the tokens of a text; errors carry line and column.

    A newline is a token of its own except inside brackets.
    """

    def __init__(self, text: str, source: str = "text") -> None:
        self.text, self.source = text, source
        self._tokens = self._tokenize()
        self._next = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """The next token, consumed; the end stays."""
        token = self.token
        self._next += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token if it is this word or sign."""
        found = self.token.kind in ("word", "sign") and self.token.text == text
        self._next += found
        return found

    def expect(self, text: str) -> None:
        """Consume this word or sign, which must come next."""
        if not self.accept(text):
            self.fail(f"'{text}' expected")

    def take_kind(self, kind: str, description: str) -> str:
        """The text of the next token, which must be of a kind."""
        if self.token.kind != kind:
            self.fail(f"{description} expected")
        return self.take().text

    def string(self) -> str:
        """A quoted text."""
        text = self.take_kind("string", "a quoted text")
        try:
            return str(json.loads(text))
        except ValueError:
            self.fail("a quoted text has an unknown escape", back=1)

    def number(self) -> int | float:
        """A number; whole unless it has a point or an exponent."""
        text = self.take_kind("number", "a number")
        try:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            self.fail("a number is too long", back=1)

    def integer(self) -> int:
        """A whole number."""
        value = self.number()
        if not isinstance(value, int):
            self.fail("a whole number expected", back=1)
        return value

    def end_line(self) -> None:
        """Consume the end of a statement."""
        if self.take().kind not in ("newline", "end"):
            self.fail("the end of the line expected", back=1)

    def listed(self, close: str, item: Callable[[], Item]) -> list[Item]:
        """Items between commas up to a closing sign, which is consumed."""
        items: list[Item] = []
        while not self.accept(close):
            items.append(item())
            if not self.accept(",") and self.token.text != close:
                self.fail(f"',' or '{close}' expected")
        return items

    def fail(self, problem: str, back: int = 0) -> NoReturn:
        """Raise FormatError at the next token, or at one before it."""
        self._fail_at(problem, self._tokens[max(0, self._next - back)].offset)

    def _fail_at(self, problem: str, offset: int) -> NoReturn:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        where = f"{self.source}, line {line}, column {column}"
        found = self.text[offset : offset + 20].split("\n")[0]
        why = f"found '{found}'" if found else "the text or the line ends here"
        raise FormatError(problem, where=where, why=why)

    def _tokenize(self) -> list[Token]:
        tokens: list[Token] = []
        offset = depth = 0
        while offset < len(self.text):
            match = _TOKEN.match(self.text, offset)
            if match is None:
                self._fail_at("a character has no meaning here", offset)
            kind, found = str(match.lastgroup), match.group()
            depth += (found in ("(", "[", "{")) - (found in (")", "]", "}"))
            if kind != "space" and not (kind == "newline" and depth > 0):
                tokens.append(Token(kind, found, offset))
            offset = match.end()
        return [*tokens, Token("end", "", offset)]


def parse_value(cursor: Cursor, depth: int = 0) -> object:
    """A plain value: number, text, bytes, none, true, false, [list], (tuple), {dictionary}."""
    token = cursor.token
    if depth > MOST_NESTING:
        cursor.fail(f"values are nested deeper than {MOST_NESTING}")
    if token.kind == "string":
        return cursor.string()
    if token.kind == "bytes":
        return _bytes(cursor)
    if token.kind == "word" and token.text in _CONSTANTS:
        return _CONSTANTS[cursor.take().text]
    if cursor.accept("["):
        return cursor.listed("]", lambda: parse_value(cursor, depth + 1))
    if cursor.accept("("):
        return tuple(cursor.listed(")", lambda: parse_value(cursor, depth + 1)))
    if cursor.accept("{"):
        return dict(cursor.listed("}", lambda: _entry(cursor, depth + 1)))
    return cursor.number()


def _bytes(cursor: Cursor) -> bytes:
    try:
        return bytes.fromhex(cursor.take().text[2:-1])
    except ValueError:
        cursor.fail("bytes need an even number of digits", back=1)


def _entry(cursor: Cursor, depth: int) -> tuple[str, object]:
    key = cursor.string()
    cursor.expect(":")
    return key, parse_value(cursor, depth)


def format_value(value: object) -> str:
    """A plain value as text that `parse_value` reads; TypeError for other types."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float):
        return format_number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f'x"{bytes(value).hex()}"'
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(str(k))}: {format_value(v)}" for k, v in value.items())
        return f"{{{', '.join(entries)}}}"
    return _format_sequence(value)


def format_number(value: float | np.floating) -> str:
    """A number in the fewest digits that give it back; floats always show that they are floats."""
    if isinstance(value, int):
        return str(value)
    text = str(value)
    plain = math.isfinite(value) and "." not in text and "e" not in text
    return f"{text}.0" if plain else text


def _format_sequence(value: object) -> str:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, list):
        return f"[{', '.join(format_value(item) for item in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(format_value(item) for item in value)})"
    raise TypeError(f"a value of type {type(value).__name__} has no text form")
