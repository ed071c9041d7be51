"""Writes artifacts; what reads them is on the path of every start and does not import this."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from circlet.artifact.digest import digest
from circlet.artifact.file import (
    HEADER,
    LINE,
    MAGIC,
    PAGE,
    SECTION,
    VERSION,
    TargetCode,
)
from circlet.target.targets import parse_target


def artifact_bytes(metadata: Mapping[str, Any], targets: Sequence[TargetCode]) -> bytes:
    """The bytes of an artifact; equal sections are stored once."""
    sections = _Sections()
    rows = [_describe(code, sections) for code in targets]
    document = {"metadata": metadata, "targets": rows}
    text = json.dumps(document, separators=(",", ":")).encode()
    table, body, start = sections.lay_out(len(text))
    sizes = (len(sections.blobs), len(text), start + len(body))
    header = HEADER.pack(MAGIC, VERSION, *sizes, digest(table + text))
    front = header + table + text
    return b"".join((front, bytes(start - len(front)), body))


class _Sections:
    """Collects the sections of a file that is being written."""

    def __init__(self) -> None:
        self.blobs: list[tuple[bytes | memoryview, int, bytes]] = []
        self._numbers: dict[tuple[bytes, int], int] = {}

    def add(self, blob: bytes | memoryview, alignment: int = LINE) -> int:
        key = (digest(blob), alignment)
        if key not in self._numbers:
            self._numbers[key] = len(self.blobs)
            self.blobs.append((blob, alignment, key[0]))
        return self._numbers[key]

    def lay_out(self, text_bytes: int) -> tuple[bytes, bytes, int]:
        """The section table, the body, and where the body starts."""
        front = HEADER.size + SECTION.size * len(self.blobs) + text_bytes
        start = -(-front // PAGE) * PAGE
        table, body = bytearray(), bytearray()
        for blob, alignment, known in self.blobs:
            body.extend(bytes(-len(body) % alignment))
            table.extend(SECTION.pack(start + len(body), len(blob), known))
            body.extend(blob)
        return bytes(table), bytes(body), start


def _describe(code: TargetCode, sections: _Sections) -> dict[str, Any]:
    return {
        "target": code.target,
        "needs": parse_target(code.target).needs,
        "shared": {name: sections.add(blob) for name, blob in code.shared.items()},
        "partitions": [
            {
                "backend": part.backend,
                "constants": sections.add(part.constants, PAGE),
                "sections": {
                    name: [sections.add(blob) for blob in blobs]
                    for name, blobs in part.sections.items()
                },
            }
            for part in code.partitions
        ],
    }
