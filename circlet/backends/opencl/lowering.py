"""The table of lowerings: for each kind of operator what writes its launches."""

from __future__ import annotations

from collections.abc import Callable

from circlet.backends.opencl.emission import Emission, NotTakenError
from circlet.ir import DType, Op

Lower = Callable[[Op, Emission], None]

LOWERINGS: dict[str, Lower] = {}

C_TYPES = {
    DType.FLOAT32: "float",
    DType.INT8: "char",
    DType.UINT8: "uchar",
    DType.INT16: "short",
    DType.UINT16: "ushort",
    DType.INT32: "int",
    DType.UINT32: "uint",
    DType.INT64: "long",
    DType.BOOL: "uchar",
}


def lowers(*kinds: str) -> Callable[[Lower], Lower]:
    """Registers a function as the lowering of some kinds."""

    def register(lower: Lower) -> Lower:
        for kind in kinds:
            assert kind not in LOWERINGS, kind
            LOWERINGS[kind] = lower
        return lower

    return register


def take(condition: bool, reason: str) -> None:
    """Go on where a condition holds.

    Raises:
        NotTakenError: It does not; the reason says what is there instead.
    """
    if not condition:
        raise NotTakenError(reason)


def c_type(dtype: DType) -> str:
    """The type of an element in kernels."""
    take(dtype in C_TYPES, f"does not take {dtype.name}")
    return C_TYPES[dtype]
