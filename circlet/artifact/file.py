"""Artifacts: compiled code, plans and packed constants in one file.

    header (64 bytes) | section table | JSON | sections

Sections start on 64 bytes, constants on pages. The header holds the hash of table and JSON, the
table that of each section, so that the header stands for the whole file: its hash is the artifact's
digest, and a signature of it is one of everything. Only what a start needs is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from circlet.artifact.digest import digest
from circlet.errors import ArtifactError, CircletError
from circlet.stored import Stored, StrPath, stored
from circlet.struct import Struct
from circlet.target.host import host_has

if TYPE_CHECKING:
    from circlet.target.targets import Target

Blob = bytes | memoryview
MAGIC = b"CIRCLETA"
SUFFIX = ".circlet"
VERSION = 3
PAGE = 4096
LINE = 64
HEADER = struct.Struct("<8sIIQQ32s")  # magic, version, sections, JSON bytes, file bytes, hash
SECTION = struct.Struct("<QQ32s")
_MAX_SECTIONS = 1 << 16
_LARGEST_VERSION = 1 << 16


class PartitionCode(Struct):
    """What one partition runs, in the terms of its backend.

    Attributes:
        backend: The backend's name.
        constants: Weights and tables. They start on a page; their hash is checked where the file
            was not checked before.
        sections: Everything else by name, each a list of sections that are checked at a load.
    """

    backend: str
    constants: Blob
    sections: Mapping[str, tuple[Blob, ...]]

    def section(self, name: str) -> Blob:
        """The one section of a name, empty where there is none."""
        found = self.sections.get(name)
        return found[0] if found else b""


class TargetCode(Struct):
    """All code for one target: partitions in order, and what those of a backend share, by name."""

    target: str
    partitions: tuple[PartitionCode, ...]
    shared: Mapping[str, Blob]


class Artifact:
    """An open artifact.

    Attributes:
        name: Where it came from.
        digest: The hash of its header, in hexadecimal, which differs where any byte that is ever
            used does.
        metadata: What was planned, and what it was made of.
        target_names: What there is code for.
    """

    def __init__(self, source: Stored) -> None:
        self.name = source.name
        self._source = source
        self._codes: dict[int, TargetCode] = {}
        self.header = source.read(0, HEADER.size)
        self.digest = digest(self.header).hex()
        self._sections, document = _parse(source, self.header)
        try:
            self.metadata: dict[str, Any] = _object(document["metadata"])
            self._rows: list[dict[str, Any]] = document["targets"]
            needs = (row["needs"] for row in self._rows)
            self._needs = [[str(arch), *map(str, words)] for arch, *words in needs]
            self.target_names = [str(row["target"]) for row in self._rows]
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self.name, f"its description is incomplete: {error}") from error

    def select(self, *, check_constants: bool = True) -> TargetCode:
        """The code for the best target that this CPU can run, its hashes checked once.

        Args:
            check_constants: Whether the hashes of weights are checked too.

        Raises:
            TargetError: The CPU lacks features for every target; they are named.
            ArtifactError: A hash does not fit.
            FileError: The file was changed since it was opened.
        """
        best = self._best()
        if best is None:
            raise self._unfit()
        return self.code(best, check_constants=check_constants)

    def check(self, *, check_constants: bool = True) -> None:
        """Read what `select` would give, or all code where none is for this CPU; raises as it."""
        best = self._best()
        for index in range(len(self._rows)) if best is None else (best,):
            self.code(index, check_constants=check_constants)

    def _best(self) -> int | None:
        fit = [index for index, needs in enumerate(self._needs) if host_has(needs)]
        return max(fit, key=lambda index: len(self._needs[index]), default=None)

    @property
    def targets(self) -> tuple[Target, ...]:
        """What there is code for."""
        from circlet.target.targets import parse_target

        return tuple(map(parse_target, self.target_names))

    def _unfit(self) -> CircletError:
        from circlet.target.targets import unfit_for_host

        return unfit_for_host(self.targets, self.name)

    def code(self, index: int, *, check_constants: bool = True) -> TargetCode:
        """The code of one target; raises as `select`."""
        if index not in self._codes:
            self._codes[index] = self._read_code(index, check_constants)
        return self._codes[index]

    def _read_code(self, index: int, check_constants: bool) -> TargetCode:
        row = self._rows[index]
        try:
            parts = tuple(self._partition(part, check_constants) for part in row["partitions"])
            shared = {name: self._section(number) for name, number in row["shared"].items()}
            return TargetCode(self.target_names[index], parts, shared)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(self.name, f"its description is incomplete: {error}") from error

    def verify_full(self) -> None:
        """Checks the hash of every section, of all targets; raises as `select`."""
        for number in range(len(self._sections)):
            self._section(number)

    def _partition(self, part: Mapping[str, Any], check_constants: bool) -> PartitionCode:
        sections = {
            str(name): tuple(map(self._section, numbers))
            for name, numbers in part["sections"].items()
        }
        constants = self._section(part["constants"], checked=check_constants)
        return PartitionCode(str(part["backend"]), constants, sections)

    def _section(self, number: int, *, checked: bool = True) -> memoryview:
        if not 0 <= number < len(self._sections):
            raise _damaged(self.name, f"there is no section {number}")
        start, size, known = self._sections[number]
        view = self._source.read(start, size)
        if checked and digest(view) != known:
            raise _damaged(self.name, f"the hash of section {number} does not match")
        return view


def open_artifact(source: StrPath | bytes | Stored) -> Artifact:
    """Opens an artifact of a file, or of bytes; what is used of it is read into private memory.

    Raises:
        FileError: The file cannot be read.
        ArtifactError: It is no artifact, of another version, or damaged.
    """
    return Artifact(stored(source, "the artifact"))


def is_artifact(head: bytes | memoryview) -> bool:
    """Whether a file that starts with these bytes claims to be an artifact."""
    return bytes(head[: len(MAGIC)]) == MAGIC


def is_of_other_version(head: bytes | memoryview) -> bool:
    """Whether a file that starts with these bytes is an artifact of a version not read here."""
    version = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 4], "little")
    return is_artifact(head) and version != VERSION and 0 < version <= _LARGEST_VERSION


def _parse(
    source: Stored, header: memoryview
) -> tuple[list[tuple[int, int, bytes]], dict[str, Any]]:
    """The section table and the JSON, after all sizes and the header's hash are checked."""
    name = source.name
    if len(header) < HEADER.size or not is_artifact(header):
        raise _damaged(name, "it does not start as an artifact does")
    _, version, count, text_bytes, file_bytes, known = HEADER.unpack_from(header)
    if version != VERSION:
        raise ArtifactError(
            "an artifact is of another version",
            where=name,
            why=f"it is of version {version}, this Circlet reads {VERSION}",
            fix="compile the model again with this version of Circlet",
        )
    table_bytes = count * SECTION.size
    if count > _MAX_SECTIONS or file_bytes != source.size:
        raise _damaged(name, f"it should have {file_bytes} bytes and has {source.size}")
    front = source.read(HEADER.size, table_bytes + text_bytes)
    if len(front) != table_bytes + text_bytes or digest(front) != known:
        raise _damaged(name, "the hash of its header does not match")
    sections = list(SECTION.iter_unpack(front[:table_bytes]))
    _check_extents(sections, source.size, name)
    return sections, _document(front[table_bytes:], name)


def _check_extents(sections: Iterable[tuple[int, int, bytes]], file_bytes: int, name: str) -> None:
    for start, size, _ in sections:
        if start % LINE or start + size > file_bytes:
            raise _damaged(name, "a section lies outside the file")


def _document(text: memoryview, name: str) -> dict[str, Any]:
    try:
        document = _parsed(str(text, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(name, "its description is not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(name, "its description is not a JSON object")
    return document


def _object(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError("metadata is not a JSON object")
    return found


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
