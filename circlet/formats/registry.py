"""The kinds of model files: those of this package, and those that others register.

Another package registers a kind by an entry point of the group `circlet.formats` whose object is a
`Format`. Entry points are loaded only where no kind that is known already fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from circlet.errors import FormatError, InputError
from circlet.formats import schema
from circlet.ir import Model
from circlet.limits import Limits

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "circlet.formats"
HEAD_BYTES = 512
# Passes that say what most kinds have no words for: paddings by their amounts, layers without bias.
STORING = ("split-padding", "add-biases")
_ONNX_FIELDS = (b"\x12", b"\x1a", b"\x22", b"\x32", b"\x3a", b"\x42", b"\x72")


@dataclass(frozen=True)
class Format:
    """One kind of model file.

    Attributes:
        name: What users call it; `Model.source_format` of what was read.
        suffixes: Endings of file names, with the dot, in lower case.
        recognises: Whether a file is of this kind, from its first 512 bytes.
        read: The model that the bytes hold; its constants should stay views into them. What is
            wrong with a file is a coded error of `circlet.errors`.
        write: The bytes of a model, with the origins of its operators if asked for; FormatError
            where the kind cannot say something. None for kinds that are only read.
        stores_origins: Whether origins are written where the caller does not say, even those that
            a reader would give the operators anyway.
        read_beside: As `read`, for formats that keep parts of a model in files beside it; it is
            given the folder of the file too.
        has: Whether it has an operator of a label (`Op.label`): passes then make that operator of
            several where a file is written.
        storing: Names of the passes that say otherwise what it has no words for.
    """

    name: str
    suffixes: tuple[str, ...]
    recognises: Callable[[bytes], bool]
    read: Callable[[memoryview, Limits], Model]
    write: Callable[[Model, bool], bytes | bytearray] | None = None
    stores_origins: bool = False
    read_beside: Callable[[memoryview, Limits, Path], Model] | None = None
    has: Callable[[str], bool] = lambda label: False
    storing: tuple[str, ...] = STORING


_FORMATS: dict[str, Format] = {}


def register_format(format: Format) -> Format:
    """Add a kind of file; ValueError if its name is taken."""
    if format.name in _FORMATS:
        raise ValueError(f"there is a format {format.name} already")
    _FORMATS[format.name] = format
    return format


def unregister_format(name: str) -> None:
    """Drop a kind of file, if there is one of this name."""
    _FORMATS.pop(name, None)


def all_formats() -> list[Format]:
    """Every kind of file, those of other packages too."""
    load_entry_points()
    return list(_FORMATS.values())


def format_named(name: str) -> Format | None:
    """The kind of this name."""
    return _FORMATS.get(name) or next((f for f in all_formats() if f.name == name), None)


def storing_passes(name: str) -> tuple[str, ...]:
    """Names of the passes that say otherwise what files of a kind have no words for."""
    known = format_named(name)
    return STORING if known is None else known.storing


def format_of_suffix(suffix: str) -> Format | None:
    """The kind whose file names end so."""
    return _first(lambda known: suffix.lower() in known.suffixes)


def written_format(target: Path) -> Format:
    """The format that a file's name asks for; InputError where none of that name is written."""
    chosen = format_of_suffix(target.suffix)
    if chosen is None or chosen.write is None:
        suffixes = [suffix for known in all_formats() if known.write for suffix in known.suffixes]
        raise InputError(
            "the suffix names no format" if chosen is None else "this format is only read",
            where=str(target),
            fix=f"end the name in one of {', '.join(suffixes)}",
        )
    return chosen


def format_of(data: memoryview) -> Format | None:
    """The kind of file that the bytes are."""
    head = bytes(data[:HEAD_BYTES])
    return _first(lambda known: known.recognises(head))


def _first(fits: Callable[[Format], bool]) -> Format | None:
    known = next(filter(fits, _FORMATS.values()), None)
    return known or next(filter(fits, all_formats()), None)


def _loaded(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except Exception as error:
        raise FormatError(
            "a package's kind of file cannot be loaded",
            where=f"entry point {entry.name} of the group {GROUP}",
            why=f"{type(error).__name__}: {error}",
            fix="mend or uninstall the package",
        ) from error


@cache
def load_entry_points() -> None:
    """Register what other packages name in the group, once."""
    from importlib.metadata import entry_points  # Here, as it costs a start 20 ms.

    for entry in entry_points(group=GROUP):
        found = _loaded(entry)
        if not isinstance(found, Format):
            raise FormatError(
                "what a package registers as a format is none",
                where=f"entry point {entry.name} of the group {GROUP}",
                why=f"it is a {type(found).__name__}",
                fix="name a circlet.formats.registry.Format there",
            )
        _FORMATS.setdefault(found.name, found)


def _tables(name: str) -> Format:
    """A kind of file of flatbuffer tables."""

    def read(data: memoryview, limits: Limits) -> Model:
        from circlet.formats.read_model import read_model

        return read_model(data, limits)

    def write(model: Model, origins: bool) -> bytearray:
        from circlet.formats.write_model import write_model  # Running a model needs no writer.

        return write_model(model, schema.by_name(name), origins)

    def recognises(head: bytes) -> bool:
        return head[4:8] == schema.IDENTIFIERS[name]

    def has(label: str) -> bool:
        return label in schema.by_name(name).enums["BuiltinOperator"].values

    is_circle = name == "circle"
    storing = STORING if is_circle else ("decompose-for-tflite", *STORING)
    return Format(name, (f".{name}",), recognises, read, write, is_circle, None, has, storing)


def _text() -> Format:
    """The text form, which can say whatever a model can; it is read only where it is named."""

    def read(data: memoryview, limits: Limits) -> Model:
        from circlet.ops.text import parse

        return parse(str(data, "utf-8", "replace"))

    def write(model: Model, origins: bool) -> bytes:
        from circlet.ir.text import to_text

        return to_text(model).encode()

    return Format("text", (), lambda head: False, read, write, True)


def _onnx() -> Format:
    """ONNX, which the package onnx of the extra `onnx` reads and writes."""

    def read(data: memoryview, limits: Limits) -> Model:
        from circlet.formats.onnx.read import read_onnx

        return read_onnx(data, limits)

    def read_beside(data: memoryview, limits: Limits, folder: Path) -> Model:
        from circlet.formats.onnx.read import read_onnx

        return read_onnx(data, limits, folder)

    def write(model: Model, origins: bool) -> bytes:
        from circlet.formats.onnx.write import write_onnx

        return write_onnx(model, origins)

    def recognises(head: bytes) -> bool:
        # An ir_version of one byte, then a field of bytes: a text, the graph or an operator set.
        return head[:1] == b"\x08" and head[2:3] in _ONNX_FIELDS

    def has(label: str) -> bool:
        return label.startswith("CUSTOM:onnx.")

    # Operators that are made of others.
    storing = ("inline-composite", "decompose", "legalize-stablehlo")
    suffixes = (".onnx",)
    return Format("onnx", suffixes, recognises, read, write, True, read_beside, has, storing)


def _nnapi() -> Format:
    """Networks of the Android Neural Networks API as JSON."""

    def read(data: memoryview, limits: Limits) -> Model:
        from circlet.formats.nnapi.read import read_nnapi

        return read_nnapi(data, limits)

    def write(model: Model, origins: bool) -> bytes:
        from circlet.formats.nnapi.write import write_nnapi

        return write_nnapi(model, origins)

    return Format("nnapi", (".json",), lambda head: head.lstrip()[:1] == b"{", read, write)


for _format in (_tables("tflite"), _tables("circle"), _onnx(), _nnapi(), _text()):
    register_format(_format)
