"""The structs of the C headers as numpy dtypes, and the builder of plans."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.errors import BackendError

ABI_HEADER = Path(__file__).parent / "runtime" / "circlet_abi.h"
PLAN_MAGIC = 0x504C5243
ABI_VERSION = 7
CONTROL = 0xFFFFFFFF
WORK_UNIT = 1024
LINE_BYTES = 64  # A cache line, and the widest vector register: what memory is aligned to.
PARAMS_ALIGNMENT = 16

# Little-endian, as all targets are; numpy aligns fields as C compilers do for these types.
_C_TYPES = {
    f"{sign}int{bits}_t": f"<{sign or 'i'}{bits // 8}"
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
} | {"float": "<f4", "double": "<f8"}
_STRUCT_CODES = {"f4": "f", "f8": "d"} | {
    f"{kind}{size}": code.upper() if kind == "u" else code
    for kind in "iu"
    for size, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FIELD = re.compile(r"^(\w+)\s+(\w+)((?:\[\w+\])*)$")
_INNER = re.compile(r"^struct (\w+) (\w+)$")
_INCLUDE = re.compile(r'^#include "([\w.]+)"', re.MULTILINE)
_DEFINE = re.compile(r"^#define\s+(\w+)\s+\(?(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\)?", re.MULTILINE)


class Jump(IntEnum):
    """When a control step goes on elsewhere; `enum circlet_control` of the ABI header."""

    ALWAYS = 0
    UNLESS = 1


class Space(IntEnum):
    """Where an operand lives; `enum circlet_space` of the ABI header."""

    NONE = 0
    ARENA = 1
    CONSTANT = 2
    INPUT = 3
    OUTPUT = 4
    PARAMS = 5
    KERNEL = 6
    STOP = 7
    RESIDENT = 8


class Operand(NamedTuple):
    """The address of one kernel operand before it is bound: a space, a buffer in it, an offset."""

    space: Space
    buffer: int = 0
    offset: int = 0


def params_dtype(header: str, struct: str, folder: Path | None = None) -> np.dtype[np.void]:
    """The layout of `typedef struct NAME { ... } NAME;` in the text of a C header.

    Fields are fixed-width integers, `float`, `double` and fixed arrays of them, with array lengths
    that are numbers or `#define`s of the same header, and structs of such fields; `at` of a struct
    `in` is named `in_at`.

    Args:
        folder: Where headers that this one includes are; structs may stand in them.
    """
    nested = _layout(header, struct, folder)
    names, formats, offsets = zip(*_leaves(nested), strict=True)
    flat = {"names": names, "formats": formats, "offsets": offsets, "itemsize": nested.itemsize}
    return np.dtype(flat, align=True)  # type: ignore[call-overload]


def _layout(header: str, struct: str, folder: Path | None) -> np.dtype[np.void]:
    found = _find_struct(header, struct, folder)
    if found is None:
        raise BackendError(f"the C header declares no struct {struct}")
    text, body = found
    lengths = {name: int(value, 0) for name, value in _DEFINE.findall(text)}
    fields: list[tuple[Any, ...]] = []
    for line in (" ".join(part.split()) for part in body.split(";")):
        inner = _INNER.match(line)
        if inner:
            fields.append((inner[2], _layout(text, inner[1], folder)))
        elif line:
            fields.append(_field(line, struct, lengths))
    return np.dtype(fields, align=True)


def _find_struct(header: str, struct: str, folder: Path | None) -> tuple[str, str] | None:
    """The text that declares a struct, and what stands between its braces."""
    declared = re.compile(rf"\bstruct\s+{re.escape(struct)}\s*\{{(.*?)\}}", re.DOTALL)
    texts, seen = [header], set[str]()
    while texts:
        text = _COMMENT.sub("", texts.pop(0))
        found = declared.search(text)
        if found is not None:
            return text, found[1]
        for name in _INCLUDE.findall(text):
            if folder is not None and name not in seen:
                seen.add(name)
                texts.append((folder / name).read_text(encoding="utf-8"))
    return None


def _leaves(layout: np.dtype[np.void]) -> Iterator[tuple[str, np.dtype[Any], int]]:
    """Name, type and offset of each field that is no struct."""
    for name, (kind, offset) in _fields_of(layout).items():
        if kind.fields is None:
            yield name, kind, offset
            continue
        for inner, leaf, at in _leaves(kind):
            yield f"{name}_{inner}", leaf, offset + at


def _field(line: str, struct: str, lengths: dict[str, int]) -> tuple[str, str, tuple[int, ...]]:
    match = _FIELD.match(line)
    if match is None or match[1] not in _C_TYPES:
        raise BackendError(f"field {line!r} of struct {struct} is of no type that plans can hold")
    counts = re.findall(r"\w+", match[3])
    unknown = [count for count in counts if not count.isdigit() and count not in lengths]
    if unknown:
        raise BackendError(f"array length {unknown[0]} of struct {struct} is not defined")
    shape = tuple(int(count) if count.isdigit() else lengths[count] for count in counts)
    return match[2], _C_TYPES[match[1]], shape


@lru_cache(maxsize=1)
def _header_packer() -> Packer:
    return Packer(abi_dtypes()["circlet_plan"])


@lru_cache(maxsize=1)
def abi_dtypes() -> dict[str, np.dtype[np.void]]:
    """The structs `circlet_plan`, `circlet_step` and `circlet_operand` of the ABI header."""
    header = ABI_HEADER.read_text(encoding="utf-8")
    names = ("circlet_plan", "circlet_step", "circlet_operand")
    return {name: params_dtype(header, name) for name in names}


class Packer:
    """Lays values out as the struct of a dtype; much faster than numpy for one record.

    Args:
        dtype: As `params_dtype` gives it.
    """

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._dtype = dtype
        self._counts: dict[str, int] = {}
        codes, at = ["<"], 0
        for name, (kind, offset) in sorted(_fields_of(dtype).items(), key=lambda row: row[1][1]):
            base, shape = kind.subdtype or (kind, ())
            count = prod(shape)
            codes.append(f"{offset - at}x{count}{_STRUCT_CODES[base.str[1:]]}")
            self._counts[name] = count if shape else 0
            at = offset + kind.itemsize
        self._struct = struct.Struct("".join([*codes, f"{dtype.itemsize - at}x"]))

    def bytes(self, values: Mapping[str, npt.ArrayLike]) -> bytes:
        """The struct as bytes, as `params_bytes` makes it."""
        flat: list[Any] = []
        for name, count in self._counts.items():
            value: Any = values.get(name, 0)
            if not count:
                flat.append(value)
                continue
            row = [0] * count if name not in values else _flat(value)
            if len(row) != count:
                return params_bytes(self._dtype, **values)
            flat += row
        if not self._counts.keys() >= values.keys():
            return params_bytes(self._dtype, **values)
        try:
            return self._struct.pack(*flat)
        except (struct.error, TypeError, OverflowError):
            return params_bytes(self._dtype, **values)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    row: list[Any] = np.asarray(value).reshape(-1).tolist()
    return row


def _fields_of(dtype: np.dtype[np.void]) -> dict[str, tuple[np.dtype[Any], int]]:
    assert dtype.fields is not None
    return {name: (row[0], row[1]) for name, row in dtype.fields.items()}


def params_bytes(dtype: np.dtype[np.void], **values: npt.ArrayLike) -> bytes:
    """One parameter struct as bytes; fields that are not named are 0.

    Raises:
        BackendError: A name is no field, or a value does not fit its type.
    """
    record = np.zeros((), dtype)
    for name, value in values.items():
        if dtype.names is None or name not in dtype.names:
            raise BackendError(f"{name} is no parameter; known: {', '.join(dtype.names or ())}")
        try:
            record[name] = value
        except (OverflowError, ValueError) as error:
            raise BackendError(f"parameter {name} does not hold {value!r}") from error
        if record[name].dtype.kind != "f" and np.any(record[name] != np.asarray(value)):
            raise BackendError(f"parameter {name} does not hold {value!r}")
    return record.tobytes()


def align(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


@dataclass
class PlanBuilder:
    """Collects steps and lays them out as the bytes that the runtime library binds and runs."""

    _steps: list[tuple[int, ...]] = field(default_factory=list)
    _operands: list[Operand] = field(default_factory=list)
    _params: bytearray = field(default_factory=bytearray)
    _params_offsets: dict[bytes, int] = field(default_factory=dict)

    def add_step(
        self,
        unit: int,
        kernel: int,
        operands: Sequence[Operand],
        params: bytes,
        tasks: int,
        source: int = 0,
        work: int = 0,
    ) -> int:
        """Appends a call of a kernel over `tasks` tasks and returns the number of the step.

        `work` is what they do in all, in elementary operations.
        """
        first = len(self._operands)
        self._operands += operands
        offset = self._params_offset(params)
        counted = min(round(work / WORK_UNIT), 2**32 - 1)
        fields = (unit, kernel, first, len(operands), offset, tasks, source, counted)
        self._steps.append(fields)
        return len(self._steps) - 1

    def add_jump(
        self, jump: Jump, condition: Sequence[Operand], destination: int, source: int = 0
    ) -> int:
        """Appends a control step; the number of steps as destination ends the run."""
        first = len(self._operands)
        self._operands += condition
        fields = (CONTROL, int(jump), first, len(condition), 0, destination, source, 0)
        self._steps.append(fields)
        return len(self._steps) - 1

    def add_constants(self, data: bytes) -> None:
        """Place constants of this plan alone at the start of its parameters, before any step."""
        self._params.extend(data)

    def _params_offset(self, params: bytes) -> int:
        """Where the parameters stand; equal ones are stored once."""
        if params not in self._params_offsets:
            self._params.extend(
                bytes(align(len(self._params), PARAMS_ALIGNMENT) - len(self._params))
            )
            self._params_offsets[params] = len(self._params)
            self._params.extend(params)
        return self._params_offsets[params]

    def finish(
        self,
        *,
        input_count: int,
        output_count: int,
        unit_count: int,
        arena_bytes: int,
        scratch_bytes: int,
        constants_bytes: int,
        resident_bytes: int = 0,
        once_steps: int = 0,
        most_turns: int = 0,
        most_work: int = 2**64 - 1,
    ) -> bytes:
        """The plan: header, steps, operands, parameters."""
        types = abi_dtypes()
        steps = np.array(self._steps, types["circlet_step"]).tobytes()
        operands = np.array(self._operands, types["circlet_operand"]).tobytes()
        tables = types["circlet_plan"].itemsize + len(steps) + len(operands)
        header = _header_packer().bytes(
            {
                "magic": PLAN_MAGIC,
                "abi_version": ABI_VERSION,
                "step_count": len(self._steps),
                "operand_count": len(self._operands),
                "input_count": input_count,
                "output_count": output_count,
                "unit_count": unit_count,
                "params_offset": align(tables, LINE_BYTES),
                "params_bytes": len(self._params),
                "arena_bytes": arena_bytes,
                "scratch_bytes": scratch_bytes,
                "constants_bytes": constants_bytes,
                "resident_bytes": resident_bytes,
                "once_steps": once_steps,
                "most_turns": most_turns,
                "most_work": min(most_work // WORK_UNIT + 1, 2**64 - 1),
            }
        )
        padding = bytes(align(tables, LINE_BYTES) - tables)
        return b"".join((header, steps, operands, padding, bytes(self._params)))
