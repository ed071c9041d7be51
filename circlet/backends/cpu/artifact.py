"""Artifacts: compiled code, plans and packed constants in one file that loads by mmap.

    header (64 bytes) | section table | JSON | sections

Sections start on 64 bytes, constants on pages. The header holds the hash of table and JSON, the
table that of each section, so that a start checks all code without reading the weights.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from circlet.backends.cpu.digest import digest
from circlet.backends.cpu.host import host_has
from circlet.errors import ArtifactError, CircletError, FileError
from circlet.record import Record

if TYPE_CHECKING:
    from circlet.backends.cpu.targets import Target

StrPath = str | os.PathLike[str]
MAGIC = b"CIRCLETA"
VERSION = 2
PAGE = 4096
_LINE = 64
_HEADER = struct.Struct("<8sIIQQ32s")  # magic, version, sections, JSON bytes, file bytes, hash
_SECTION = struct.Struct("<QQ32s")
_MAX_SECTIONS = 1 << 16


class PartitionCode(Record):
    """What one partition runs: its plan, its packed constants, its units.

    `stock` lists the kernels and constants that the network can use at other sizes.
    """

    plan: bytes | memoryview
    constants: bytes | memoryview
    units: tuple[bytes | memoryview, ...]
    stock: bytes | memoryview = b""


class TargetCode(Record):
    """All code for one target, by its name: the runtime library and the partitions in order."""

    target: str
    runtime: bytes | memoryview
    partitions: tuple[PartitionCode, ...]
    metadata: Mapping[str, Any]


class Artifact:
    """An open artifact. Its sections are views; a view keeps the file mapped."""

    def __init__(self, data: memoryview, name: str) -> None:
        self.name = name
        self._data = data
        self._codes: dict[int, TargetCode] = {}
        self._sections, document = _parse(data, name)
        try:
            self.metadata: dict[str, Any] = document["metadata"]
            self._rows: list[dict[str, Any]] = document["targets"]
            needs = (row["needs"] for row in self._rows)
            self._needs = [[str(arch), *map(str, words)] for arch, *words in needs]
            self.target_names = [str(row["target"]) for row in self._rows]
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(name, f"its description is incomplete: {error}") from error

    def select(self) -> TargetCode:
        """The code for the best target that this CPU can run, its hashes checked.

        Raises:
            TargetError: The CPU lacks features for every target; they are named.
        """
        fit = [index for index, needs in enumerate(self._needs) if host_has(needs)]
        if not fit:
            raise self._unfit()
        return self.code(max(fit, key=lambda index: len(self._needs[index])))

    @property
    def targets(self) -> tuple[Target, ...]:
        """What there is code for."""
        from circlet.backends.cpu.targets import parse_target

        return tuple(map(parse_target, self.target_names))

    def _unfit(self) -> CircletError:
        from circlet.backends.cpu.targets import unfit_for_host

        return unfit_for_host(self.targets)

    def code(self, index: int) -> TargetCode:
        """The code of one target, the hashes of all but the constants checked once."""
        if index not in self._codes:
            self._codes[index] = self._read_code(index)
        return self._codes[index]

    def _read_code(self, index: int) -> TargetCode:
        row = self._rows[index]
        try:
            partitions = tuple(self._partition(part) for part in row["partitions"])
            runtime = self._section(row["runtime"])
            return TargetCode(self.target_names[index], runtime, partitions, row["metadata"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self.name, f"its description is incomplete: {error}") from error

    def verify_full(self) -> None:
        """Checks the hash of every section, the weights included."""
        for number in range(len(self._sections)):
            self._section(number)

    def _partition(self, part: Mapping[str, Any]) -> PartitionCode:
        units = tuple(self._section(number) for number in part["units"])
        constants = self._section(part["constants"], checked=False)
        stock = self._section(part["stock"]) if "stock" in part else b""
        return PartitionCode(self._section(part["plan"]), constants, units, stock)

    def _section(self, number: int, *, checked: bool = True) -> memoryview:
        if not 0 <= number < len(self._sections):
            raise _damaged(self.name, f"there is no section {number}")
        start, size, known = self._sections[number]
        view = self._data[start : start + size]
        if checked and digest(view) != known:
            raise _damaged(self.name, f"the hash of section {number} does not match")
        return view


def artifact_bytes(metadata: Mapping[str, Any], targets: Sequence[TargetCode]) -> bytes:
    """The bytes of an artifact; equal sections are stored once."""
    import json

    sections = _Sections()
    rows = [_describe(code, sections) for code in targets]
    document = {"metadata": metadata, "targets": rows}
    text = json.dumps(document, separators=(",", ":")).encode()
    table, body, start = sections.lay_out(len(text))
    sizes = (len(sections.blobs), len(text), start + len(body))
    header = _HEADER.pack(MAGIC, VERSION, *sizes, digest(table + text))
    front = header + table + text
    return b"".join((front, bytes(start - len(front)), body))


def write_artifact(
    path: StrPath,
    metadata: Mapping[str, Any],
    targets: Sequence[TargetCode],
    *,
    mode: int = 0o600,
) -> None:
    """Writes an artifact under a temporary name and renames it."""
    write_file(path, artifact_bytes(metadata, targets), mode)


def write_file(path: StrPath, data: bytes, mode: int = 0o600) -> None:
    """Has the file hold exactly these bytes, or leaves it as it was.

    Raises:
        FileError: The folder cannot be written or the disk is full; the cause is an `OSError`.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise FileError(
            "a file cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            fix="check the folder, its permissions and the free space",
        ) from error


def open_artifact(source: StrPath | bytes) -> Artifact:
    """Opens an artifact by mmap, or from bytes.

    Raises:
        FileError: The file cannot be read.
        ArtifactError: It is no artifact, of another version, or damaged.
    """
    if isinstance(source, bytes):
        return Artifact(_page_aligned(source), "bytes")
    try:
        with open(source, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise _damaged(str(source), "the file is empty") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise FileError("an artifact cannot be read", where=str(source), why=why) from error
    return Artifact(memoryview(mapped), str(source))


def is_artifact(head: bytes | memoryview) -> bool:
    """Whether a file that starts with these bytes claims to be an artifact."""
    return bytes(head[: len(MAGIC)]) == MAGIC


def _page_aligned(data: bytes) -> memoryview:
    room = mmap.mmap(-1, max(len(data), 1))
    room[: len(data)] = data
    return memoryview(room)[: len(data)].toreadonly()


class _Sections:
    """Collects the sections of a file that is being written."""

    def __init__(self) -> None:
        self.blobs: list[tuple[bytes | memoryview, int, bytes]] = []
        self._numbers: dict[tuple[bytes, int], int] = {}

    def add(self, blob: bytes | memoryview, alignment: int = _LINE) -> int:
        key = (digest(blob), alignment)
        if key not in self._numbers:
            self._numbers[key] = len(self.blobs)
            self.blobs.append((blob, alignment, key[0]))
        return self._numbers[key]

    def lay_out(self, text_bytes: int) -> tuple[bytes, bytes, int]:
        """The section table, the body, and where the body starts."""
        front = _HEADER.size + _SECTION.size * len(self.blobs) + text_bytes
        start = -(-front // PAGE) * PAGE
        table, body = bytearray(), bytearray()
        for blob, alignment, known in self.blobs:
            body.extend(bytes(-len(body) % alignment))
            table.extend(_SECTION.pack(start + len(body), len(blob), known))
            body.extend(blob)
        return bytes(table), bytes(body), start


def _describe(code: TargetCode, sections: _Sections) -> dict[str, Any]:
    from circlet.backends.cpu.targets import parse_target

    return {
        "target": code.target,
        "needs": parse_target(code.target).needs,
        "metadata": code.metadata,
        "runtime": sections.add(code.runtime),
        "partitions": [
            {
                "plan": sections.add(part.plan),
                "units": [sections.add(unit) for unit in part.units],
                "constants": sections.add(part.constants, PAGE),
                "stock": sections.add(part.stock),
            }
            for part in code.partitions
        ],
    }


def _parse(data: memoryview, name: str) -> tuple[list[tuple[int, int, bytes]], dict[str, Any]]:
    """The section table and the JSON, after all sizes and the header's hash are checked."""
    if len(data) < _HEADER.size or not is_artifact(data):
        raise _damaged(name, "it does not start as an artifact does")
    _, version, count, text_bytes, file_bytes, known = _HEADER.unpack_from(data)
    if version != VERSION:
        raise ArtifactError(
            "an artifact is of another version",
            where=name,
            why=f"it is of version {version}, this Circlet reads {VERSION}",
            fix="compile the model again with this version of Circlet",
        )
    table_bytes = count * _SECTION.size
    if count > _MAX_SECTIONS or file_bytes != len(data):
        raise _damaged(name, f"it should have {file_bytes} bytes and has {len(data)}")
    front = data[_HEADER.size : _HEADER.size + table_bytes + text_bytes]
    if len(front) != table_bytes + text_bytes or digest(front) != known:
        raise _damaged(name, "the hash of its header does not match")
    sections = list(_SECTION.iter_unpack(front[:table_bytes]))
    _check_extents(sections, len(data), name)
    return sections, _document(front[table_bytes:], name)


def _check_extents(sections: Iterable[tuple[int, int, bytes]], file_bytes: int, name: str) -> None:
    for start, size, _ in sections:
        if start % _LINE or start + size > file_bytes:
            raise _damaged(name, "a section lies outside the file")


def _document(text: memoryview, name: str) -> dict[str, Any]:
    try:
        document = _parsed(str(text, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(name, "its description is not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(name, "its description is not a JSON object")
    return document


def _parsed(text: str) -> object:
    """What JSON says, read by the scanner of `json`; that whole package takes a millisecond."""
    try:
        from _json import make_scanner
    except ImportError:
        from json import loads

        return loads(text)
    try:
        document, end = make_scanner(_Strict())(text, 0)  # type: ignore[arg-type]
    except StopIteration as error:
        raise ValueError(f"no value at character {error.value}") from error
    if end != len(text):
        raise ValueError(f"more than one value, at character {end}")
    return document


class _Strict:
    """How a scanner of JSON makes values, in its terms: as `json.loads` does."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def _damaged(name: str, why: str) -> ArtifactError:
    return ArtifactError(
        "an artifact is damaged or is none", where=name, why=why, fix="compile the model again"
    )
