"""What is known of a kernel function: the form of the rows of the table of variants."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

# Where networks of the public corpora lie that measure one operator.
ONE = "singleop/models/ONE_recipe__"
LITE = "singleop/models/LiteRT__"
_TESTS = "backends/cpu/test_"


class Numerics(Enum):
    """How close a variant's float results are; integers are exact in all of them.

    The value is the bound of single operators on max|difference| / max(1, max|golden|).
    """

    EXACT = "exact", 0.0
    ELEMENT = "by element", 1e-5
    ORDERED = "in order", 1e-5
    LANES = "by lanes", 1e-5
    WINOGRAD = "transformed", 1e-5
    BF16 = "rounded operands", 2e-2

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.value[0]

    @property
    def bound(self) -> float:
        """What errors stay within."""
        return self.value[1]


class Variant(NamedTuple):
    """One kernel function.

    Attributes:
        name: The C function.
        header: Its file in `kernels/`.
        computes: Operators, for people.
        numerics: The class of its results.
        test: The file below `tests/` that compares it with the records.
        network: The file of the public corpora that measures it; "" where none of them has it.
        target: What to compile for to meet it.
        precision: What to compile with to meet it.
        knobs: What its lowering chooses by knobs: "tile", "method", "fold".
    """

    name: str
    header: str
    computes: str
    numerics: Numerics
    test: str
    network: str
    target: str = "x86_64+v3"
    precision: str = "f32"
    knobs: tuple[str, ...] = ()


def row(
    name: str,
    header: str,
    computes: str,
    numerics: Numerics,
    test: str,
    network: str,
    *,
    target: str = "x86_64+v3",
    precision: str = "f32",
    knobs: tuple[str, ...] = (),
) -> Variant:
    """A row; its header, test and network by the middles of their files' names."""
    path = network if not network or "/" in network else f"models/{network}"
    file = f"{path}.tflite" if path else ""
    checked = f"{test}.py" if "/" in test else f"{_TESTS}{test}.py"
    places = f"{header}.h", computes, numerics, checked, file
    return Variant(name, *places, target, precision, knobs)
