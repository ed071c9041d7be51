"""A network to the Android Neural Networks API: operands, and operations over their indices."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from circlet.formats.nnapi.codes import OperandCode

Dims = tuple[int, ...]


class Lifetime(Enum):
    """Where the elements of an operand come from."""

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
    CONSTANT = "CONSTANT"
    TEMPORARY = "TEMPORARY"


@dataclass
class Operand:
    """One operand.

    Attributes:
        code: Its type.
        dims: Its sizes, 0 where one is unknown; () for scalars, and for tensors whose rank is
            unknown.
        scale, zero_point: Its quantisation; scale 0.0 where it has none.
        channel_dim, channel_scales: The quantisation of TENSOR_QUANT8_SYMM_PER_CHANNEL.
        value: The elements of a constant, of `code.dtype.numpy` and shape `dims`; None for
            operands of other lifetimes, and for constants that are omitted.
        is_omitted: Whether it is an optional operand that is left out.
        name: What users call it.
    """

    code: OperandCode
    dims: Dims = ()
    scale: float = 0.0
    zero_point: int = 0
    channel_dim: int = 0
    channel_scales: tuple[float, ...] = ()
    value: np.ndarray | None = None
    is_omitted: bool = False
    name: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation, by the name without its prefix ANEURALNETWORKS_, over indices of operands."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class Description:
    """A network.

    Attributes:
        operands: Its operands; everything else names them by index.
        operations: Its operations, in any order.
        inputs, outputs: What callers give and get.
        is_relaxed: Whether TENSOR_FLOAT32 may be computed as TENSOR_FLOAT16 is.
    """

    operands: list[Operand] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    is_relaxed: bool = False
