"""Outputs of a network as a file, in the form that its name's ending says."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from circlet.errors import InputError
from circlet.formats.entry_names import NAMES_ENTRY, entry_names


class Output(NamedTuple):
    """An output of a network.

    Attributes:
        name: As no other output is called.
        array: Its elements, of any dtype and shape.
        scale, zero_point: Its quantisation, empty where it has none.
    """

    name: str
    array: np.ndarray
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()


def check_output_suffix(path: Path) -> None:
    """InputError where the name of a file does not say in what form outputs are to be written."""
    if path.suffix.lower() not in _WRITERS:
        raise InputError(
            "the outputs cannot be written in that form",
            where=str(path),
            why=f"its name ends in {path.suffix!r}" if path.suffix else "its name has no ending",
            fix=f"end it in {', '.join(_WRITERS)}",
        )


def check_output_count(path: Path, names: Sequence[str]) -> None:
    """InputError where a form that holds one array is to hold several."""
    if len(names) != 1 and path.suffix.lower() not in _SEVERAL:
        raise InputError(
            f"a {path.suffix} file holds one output",
            where=str(path),
            why=f"the network has {len(names)}: {', '.join(map(repr, names))}",
            fix="write .npz or .json, which hold all of them",
        )


def output_bytes(path: Path, outputs: Sequence[Output]) -> bytes:
    """The contents of a file of outputs in the form that its name says.

    `.npz` and `.npy` are numpy's; `.json` has names, dtypes, shapes, quantisation and nested lists,
    with null for what is no finite number; `.csv` has a row for each row of the last axis; `.raw`
    and `.bin` have the elements' bytes, in C order, little-endian.

    Raises:
        InputError: There is no such form, or it cannot hold these outputs.
    """
    check_output_suffix(path)
    check_output_count(path, [output.name for output in outputs])
    return _WRITERS[path.suffix.lower()](outputs)


def _storable(output: Output) -> np.ndarray:
    """The array, strings as numpy's own byte strings."""
    array = output.array
    if not array.dtype.hasobject:
        return array
    if any(element.endswith(b"\0") for element in array.flat):
        why = "numpy's byte strings cannot end in a zero byte"
        raise InputError("an output of strings cannot be written", where=output.name, why=why)
    return array.astype(np.bytes_)


def _npz(outputs: Sequence[Output]) -> bytes:
    """Entries are plain file names; where outputs have others, `NAMES_ENTRY` has these."""
    names = [output.name for output in outputs]
    entries = entry_names(names)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for output, entry in zip(outputs, entries, strict=True):
            with archive.open(f"{entry}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, _storable(output), allow_pickle=False)
        if names != entries:
            pairs = dict(zip(entries, names, strict=True))
            archive.writestr(NAMES_ENTRY, json.dumps(pairs, indent=2))
    return packed.getvalue()


def _npy(outputs: Sequence[Output]) -> bytes:
    packed = io.BytesIO()
    np.lib.format.write_array(packed, _storable(outputs[0]), allow_pickle=False)
    return packed.getvalue()


def _raw(outputs: Sequence[Output]) -> bytes:
    array = outputs[0].array
    if array.dtype.hasobject:
        why, fix = "strings have no fixed size", "write .npz, .npy, .json or .csv"
        raise InputError(
            "an output of strings cannot be written", where=outputs[0].name, why=why, fix=fix
        )
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def _csv(outputs: Sequence[Output]) -> bytes:
    array = outputs[0].array
    text = io.StringIO()
    rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
    csv.writer(text, lineterminator="\n").writerows([_text(x) for x in row] for row in rows)
    return text.getvalue().encode()


def _json(outputs: Sequence[Output]) -> bytes:
    described = [
        {
            "name": output.name,
            "dtype": "string" if output.array.dtype.hasobject else output.array.dtype.name,
            "shape": output.array.shape,
            "scale": output.scale,
            "zero_point": output.zero_point,
            "values": _nested(output.array),
        }
        for output in outputs
    ]
    return (json.dumps({"outputs": described}, allow_nan=False) + "\n").encode()


def _nested(array: np.ndarray) -> object:
    if array.ndim > 1:
        return [_nested(part) for part in array]
    return [_element(x) for x in array] if array.ndim else _element(array[()])


def _element(element: object) -> object:
    """An element as JSON knows it; complex numbers as pairs."""
    if isinstance(element, bytes):
        return _text(element)
    if isinstance(element, np.complexfloating):
        return [_element(element.real), _element(element.imag)]
    if isinstance(element, (np.integer, np.bool_)):
        return element.item()
    number = float(_text(element))
    return number if math.isfinite(number) else None


def _text(element: object) -> str:
    """An element in the fewest digits that give it back; strings as UTF-8, odd bytes as codes."""
    if isinstance(element, bytes):
        return element.decode("utf-8", "backslashreplace")
    return str(element)


_SEVERAL = frozenset({".npz", ".json"})
_WRITERS: Mapping[str, Callable[[Sequence[Output]], bytes]] = MappingProxyType(
    {".npz": _npz, ".npy": _npy, ".json": _json, ".csv": _csv, ".raw": _raw, ".bin": _raw}
)
