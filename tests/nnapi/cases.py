"""Cases as data: where they lie, what they describe, what examples give and expect."""

from __future__ import annotations

import fnmatch
import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Description, Dims, Operand
from circlet.formats.nnapi.read import description_of

SUFFIXES = (".jsonl.xz", ".jsonl", ".json")
# Operations that take operands without elements for ones that are left out.
_OPTIONAL = ("LSTM", "RNN", "SVDF", "LSH_PROJECTION")


@dataclass(frozen=True)
class Example:
    """One set of inputs and outputs.

    Attributes:
        description: The network, without the inputs that are left out.
        inputs: Arrays in the order of its inputs.
        outputs: For each output the elements that are expected, flat; None where any will do.
    """

    description: Description
    inputs: list[np.ndarray]
    outputs: list[np.ndarray | None]


@dataclass(frozen=True)
class Case:
    """One network with its examples.

    Attributes:
        name: Its name.
        kinds: The operations in it, each once.
        tolerance: How far results may be from what is expected, by kind of element.
        found: The JSON object.
    """

    name: str
    kinds: tuple[str, ...]
    tolerance: Mapping[str, Any]
    found: Mapping[str, Any] = field(repr=False)

    def examples(self) -> Iterator[Example]:
        """Each example; raises as `description_of`."""
        for example in self.found["examples"]:
            yield _example(description_of(self.found), example)


def cases(folder: Path, name: str = "*", kind: str = "") -> Iterator[Case]:
    """The cases of a folder, or of one file, whose names fit and that have such an operation."""
    for path in files(folder):
        for found in _objects(path):
            kinds = tuple(dict.fromkeys(str(each["op"]) for each in found["operations"]))
            case = Case(str(found.get("case", path.stem)), kinds, found["tolerance"], found)
            if fnmatch.fnmatch(case.name, name) and (not kind or kind in kinds):
                yield case


def files(folder: Path) -> list[Path]:
    """The files of cases in a folder; a file stands for itself."""
    if folder.is_file():
        return [folder]
    found = (path for path in folder.rglob("*") if path.name.endswith(SUFFIXES))
    return sorted(path for path in found if path.name != "index.json")


def _objects(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".json":
        yield json.loads(path.read_text(encoding="utf-8"))
        return
    data = path.read_bytes()
    text = lzma.decompress(data) if path.suffix == ".xz" else data
    yield from (json.loads(line) for line in text.splitlines() if line.strip())


def _example(description: Description, example: Mapping[str, Any]) -> Example:
    left_out = set(example.get("omitted_inputs", ()))
    inputs, arrays = [], []
    for position, (index, given) in enumerate(
        zip(description.inputs, example["inputs"], strict=True)
    ):
        operand = description.operands[index]
        if position in left_out or (not given and _is_optional(description, index)):
            description.operands[index] = replace(operand, is_omitted=True)
            continue
        inputs.append(index)
        arrays.append(_array(operand, given))
    outputs = [
        _expected(description.operands[index], wanted)
        for index, wanted in zip(description.outputs, example["outputs"], strict=True)
    ]
    return Example(replace(description, inputs=tuple(inputs)), arrays, outputs)


def _is_optional(description: Description, index: int) -> bool:
    """Whether an operand without elements stands for one that is left out."""
    readers = [each.kind for each in description.operations if index in each.inputs]
    return bool(readers) and all(kind.endswith(_OPTIONAL) for kind in readers)


def _array(operand: Operand, given: Sequence[Any]) -> np.ndarray:
    values = np.array(given, operand.code.dtype.numpy)
    return values.reshape(_sizes(operand, values.size))


def _sizes(operand: Operand, count: int) -> Dims:
    """The sizes of an input of so many elements: one that is open follows from the others."""
    known = prod(size for size in operand.dims if size)
    if operand.code.is_scalar or not operand.dims:
        return () if count == 1 else (count,)
    if operand.dims.count(0) == 1 and count:
        return tuple(size or count // known for size in operand.dims)
    return operand.dims


def _expected(operand: Operand, wanted: Sequence[Any] | None) -> np.ndarray | None:
    if wanted is None:
        return None
    is_float = operand.code.dtype.is_float
    return np.array(wanted, np.float64 if is_float else operand.code.dtype.numpy).reshape(-1)


def is_ignored(case: Case, index: int) -> bool:
    """Whether what an output holds does not matter."""
    return bool(case.found["operands"][index].get("ignored"))


def code_of(case: Case, index: int) -> OperandCode:
    """The type of an operand."""
    return OperandCode[case.found["operands"][index]["type"]]
