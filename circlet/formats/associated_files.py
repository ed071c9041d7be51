"""Files that are packed behind a model's tables as a zip archive: labels, vocabularies.

The archive is looked at only as far as the limits here reach, whatever it says of itself: its
directory is measured before anything of it is read, and contents are unpacked a bounded part at
a time.
"""

from __future__ import annotations

import io
import struct
import zipfile

from circlet.errors import LimitError

_END = struct.Struct("<4s4H2IH")  # signature, disks, entries, directory's size and place, comment
_END_SIGNATURE = b"PK\x05\x06"
_MOST_COMMENT = 0xFFFF
_MOST_ENTRIES = 256
_MOST_DIRECTORY_BYTES = 1 << 16
_MOST_BYTES = 4 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_associated_files(data: memoryview) -> tuple[dict[str, bytes], str]:
    """Contents of the packed files by name, and what is wrong with the archive, "" if nothing.

    A file without an archive has none. At most 256 files of together 4 MiB are unpacked.
    """
    if not _has_archive(data):
        return {}, ""
    try:
        with zipfile.ZipFile(_View(data)) as archive:
            return _contents(archive), ""
    except Exception as error:  # zipfile raises whatever it stumbles over in damaged archives
        return {}, f"the files packed with the model cannot be read: {error}"


def _has_archive(data: memoryview) -> bool:
    """Whether an archive of a bounded directory ends the bytes."""
    tail = bytes(data[max(0, len(data) - _MOST_COMMENT - _END.size) :])
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or at + _END.size > len(tail):
        return False
    _, _, _, _, entries, directory_bytes, _, comment = _END.unpack_from(tail, at)
    is_last = at + _END.size + comment == len(tail)
    return bool(is_last and entries <= _MOST_ENTRIES and directory_bytes <= _MOST_DIRECTORY_BYTES)


def _contents(archive: zipfile.ZipFile) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = _MOST_BYTES
    for entry in archive.infolist():
        if entry.is_dir() or entry.compress_type not in _METHODS or entry.flag_bits & 1:
            continue
        with archive.open(entry) as file:
            contents = file.read(left + 1)
        left -= len(contents)
        if left < 0:
            raise LimitError("they are too large", why=f"limit {_MOST_BYTES} bytes")
        found.setdefault(entry.filename, contents)
    return found


class _View(io.RawIOBase):
    """Bytes as a file that is not copied."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if start + offset < 0:
            raise OSError("a place before the file")
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = len(self._data) if size is None or size < 0 else self._at + size
        found = bytes(self._data[self._at : end])
        self._at += len(found)
        return found
