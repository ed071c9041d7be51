"""Types of operands, and the checks that the API makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, prod

from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Dims
from circlet.frontends.nnapi.object import refused

_ZERO_POINTS = {
    OperandCode.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandCode.TENSOR_QUANT16_ASYMM: (0, 65535),
    OperandCode.TENSOR_QUANT8_SYMM: (0, 0),
    OperandCode.TENSOR_QUANT16_SYMM: (0, 0),
}
_MOST_BYTES = 2**32 - 1


@dataclass(frozen=True)
class OperandType:
    """The type of an operand.

    Attributes:
        code: Its `OperandCode`.
        dims: Its sizes, 0 where one is unknown; () for scalars and tensors of unknown rank.
        scale, zero_point: Its quantisation.
    """

    code: int
    dims: Dims = ()
    scale: float = 0.0
    zero_point: int = 0

    def checked(self, where: str) -> OperandCode:
        """The code, where the type is one that the API takes.

        Raises:
            NNAPIError: BAD_DATA.
        """
        if self.code not in list(OperandCode):
            raise refused("a type is unknown", where=where, why=f"OperandCode {self.code}")
        code = OperandCode(self.code)
        if code.is_scalar and self.dims:
            raise refused("a scalar has dimensions", where=where, why=str(list(self.dims)))
        if not all(0 <= size < 2**32 for size in self.dims):
            raise refused("a size is out of range", where=where, why=str(list(self.dims)))
        if prod(self.dims) * code.dtype.numpy.itemsize > _MOST_BYTES:
            raise refused("an operand is too large", where=where, why=str(list(self.dims)))
        self._check_quantisation(code, where)
        return code

    def _check_quantisation(self, code: OperandCode, where: str) -> None:
        low, high = _ZERO_POINTS.get(code, (0, 0))
        if not low <= self.zero_point <= high:
            why = f"{self.zero_point} for {code.name}, which takes {low} to {high}"
            raise refused("a zero point is out of range", where=where, why=why)
        if code in _ZERO_POINTS:
            fits = self.scale > 0 and isfinite(self.scale)
        elif code is OperandCode.TENSOR_INT32:
            fits = self.scale >= 0 and isfinite(self.scale)
        else:
            fits = self.scale == 0
        if not fits:
            why = f"{self.scale:g} for {code.name}"
            raise refused("a scale does not fit the type", where=where, why=why)


def is_known(dims: Dims) -> bool:
    """Whether no size is left open; of tensors with a rank and of scalars."""
    return 0 not in dims
