"""Mutations of artifacts behind their hashes: headers, tables, JSON and sections that fit again.

Only networks of the reference backend are taken: whatever they are changed to holds no native code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

from circlet.artifact.digest import digest
from circlet.artifact.file import HEADER, LINE, MAGIC, PAGE, SECTION, VERSION
from circlet.compiler.compile import compile_model
from circlet.errors import CircletError
from circlet.options import Options
from tests.fuzz import mutate_bytes, mutate_model
from tests.fuzz.growth.names import NAMES

Row = tuple[int, int, bytes]
Change = Callable[["Artifact", Random], None]
_OPTIONS = Options(backends=("reference",), cache=False)
_WORDS = (0, 1, 63, 64, 65, 4096, 1 << 16, (1 << 31) - 1, 1 << 32, 1 << 63, (1 << 64) - 1)
_VALUES: tuple[object, ...] = (
    *(None, True, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 1e308, float("nan"), float("inf"), ""),
    *("x", "cpu", "reference", "float32", "object", "V1000000000", "f8,i4", [], [[]], {}, [-1]),
    *([0, 0], [1 << 40], [2**31, 2**31], {"": 0}, "00", "zz", *NAMES),
)
_TEXTS = (
    *(b"[" * 100_000, b"[" * 500 + b"]" * 500, b'{"a":' * 50_000, b"1e999", b"9" * 10_000, b""),
    *(b"nan", b"NaN", b"-Infinity", b'"\\ud800"', b'"\\u0000"', b"\xff", b"\xed\xa0\x80", b"{}"),
    *(b"[]", b"0", b'{"metadata":{},"targets":[]}', b'{"metadata":[],"targets":{}}', b"{} {}"),
)


class Artifact:
    """The parts of an artifact, to be changed and put together again with hashes that fit."""

    def __init__(self, data: bytes) -> None:
        _, self.version, count, text_bytes, _, _ = HEADER.unpack_from(data)
        end = HEADER.size + count * SECTION.size
        rows: Sequence[Row] = [*SECTION.iter_unpack(data[HEADER.size : end])]
        self.sections = [bytearray(data[start : start + size]) for start, size, _ in rows]
        self.text = data[end : end + text_bytes]
        self.change_rows: list[Callable[[list[Row]], None]] = []
        self.counts: dict[int, int] = {}

    def data(self) -> bytes:
        """The file; only what was asked to be wrong is."""
        front = HEADER.size + SECTION.size * len(self.sections) + len(self.text)
        body, rows, start = bytearray(), [], -(-front // PAGE) * PAGE
        for section in self.sections:
            body += bytes(-len(body) % PAGE)
            rows.append((start + len(body), len(section), digest(bytes(section))))
            body += section
        for change in self.change_rows:
            change(rows)
        table = b"".join(SECTION.pack(*row) for row in rows)
        numbers = [len(rows), len(self.text), start + len(body)]
        for place, number in self.counts.items():
            numbers[place] = number if place else number & 0xFFFFFFFF
        known = digest(table + self.text)
        header = HEADER.pack(MAGIC, self.version, *numbers, known)
        front_bytes = header + table + self.text
        return front_bytes + bytes(max(0, start - len(front_bytes))) + body


@cache
def artifact_of(model: bytes) -> bytes:
    """The artifact of a model for the reference backend, b"" where it has none."""
    try:
        return compile_model(model, _OPTIONS)
    except CircletError:
        return b""


def mutate(data: bytes, random: Random) -> bytes:
    """An artifact changed in a few places behind its hashes, seldom in front of them."""
    if random.random() < 0.1:
        return mutate_bytes.mutate(data, random)
    artifact = Artifact(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(CHANGES)(artifact, random)
    return artifact.data()


def change_value(artifact: Artifact, random: Random) -> None:
    """Another value somewhere in the JSON."""
    document = _document(artifact)
    if document is not None:
        holder, key = _place(document, random)
        old = holder[key]
        near = [old + 1, old - 1, -old] if isinstance(old, int) else [[old], [old, old]]
        holder[key] = random.choice((random.choice(near), random.choice(_VALUES)))
        _store(artifact, document)


def drop_value(artifact: Artifact, random: Random) -> None:
    """One entry of the JSON less."""
    document = _document(artifact)
    if document is not None:
        holder, key = _place(document, random)
        del holder[key]
        _store(artifact, document)


def repeat_value(artifact: Artifact, random: Random) -> None:
    """An entry of the JSON many times, or in the place of another."""
    document = _document(artifact)
    if document is None:
        return
    (holder, key), (other, place) = _place(document, random), _place(document, random)
    value = json.loads(json.dumps(holder[key]))
    if isinstance(holder, list) and random.random() < 0.5:
        holder += [value] * random.choice((1, 2, 1000))
    else:
        other[place] = value
    _store(artifact, document)


def change_text(artifact: Artifact, random: Random) -> None:
    """JSON that is none, or of odd forms."""
    text = artifact.text
    style, at = random.random(), random.randrange(len(text) + 1)
    if style < 0.3:
        artifact.text = random.choice(_TEXTS)
    elif style < 0.6:
        artifact.text = text[:at] + random.choice(_TEXTS) + text[at:]
    else:
        artifact.text = mutate_bytes.mutate(text, random)


def change_section(artifact: Artifact, random: Random) -> None:
    """Other bytes in a section, whose hash fits."""
    if artifact.sections:
        number = random.randrange(len(artifact.sections))
        artifact.sections[number] = bytearray(
            mutate_bytes.mutate(bytes(artifact.sections[number]), random)
        )


def change_network(artifact: Artifact, random: Random) -> None:
    """Another network in a section that holds one."""
    if artifact.sections:
        number = random.randrange(len(artifact.sections))
        try:
            changed = mutate_model.mutate(bytes(artifact.sections[number]), random)
        except Exception:  # no network, or one that cannot be written
            return
        artifact.sections[number] = bytearray(changed)


def change_row(artifact: Artifact, random: Random) -> None:
    """A section that lies elsewhere, is of another size, or has another's hash."""
    word, place, which = random.choice(_WORDS), random.randrange(3), random.random()

    def change(rows: list[Row]) -> None:
        if rows:
            number = int(which * len(rows))
            row: list[Any] = [*rows[number]]
            row[place] = word if place < 2 else rows[-1][2]
            rows[number] = (row[0], row[1], row[2])

    artifact.change_rows.append(change)


def change_count(artifact: Artifact, random: Random) -> None:
    """A header that counts wrongly, with or without a hash that fits."""
    artifact.counts[random.randrange(3)] = random.choice(_WORDS)


def change_version(artifact: Artifact, random: Random) -> None:
    artifact.version = random.choice((0, 1, VERSION - 1, VERSION + 1, (1 << 32) - 1))


def change_sections(artifact: Artifact, random: Random) -> None:
    """More sections, fewer, or in another order."""
    style = random.random()
    if style < 0.3:
        artifact.sections += [bytearray(LINE)] * random.choice((1, 10, 2000))
    elif style < 0.6 and artifact.sections:
        artifact.sections.pop(random.randrange(len(artifact.sections)))
    else:
        random.shuffle(artifact.sections)


CHANGES: tuple[Change, ...] = (
    *(change_value, change_value, change_value, change_value, drop_value, repeat_value),
    *(change_text, change_section, change_network, change_network, change_row, change_count),
    *(change_version, change_sections),
)


def _document(artifact: Artifact) -> dict[str, Any] | None:
    try:
        document = json.loads(artifact.text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and document else None


def _store(artifact: Artifact, document: dict[str, Any]) -> None:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    artifact.text = text.encode("utf-8", "surrogatepass")


def _place(document: dict[str, Any], random: Random) -> tuple[Any, Any]:
    """Some entry: what holds it, and its key there."""
    holder: Any = document
    while True:
        key = random.choice([*(holder if isinstance(holder, dict) else range(len(holder)))])
        inner = holder[key]
        if not (isinstance(inner, (dict, list)) and inner) or random.random() < 0.15:
            return holder, key
        holder = inner
