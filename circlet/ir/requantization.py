"""How integer sums become the stored values of a result."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDINGS = ("double", "single", "float", "even")
ACCUMULATOR_BITS = (32, 64)


@dataclass(frozen=True)
class Requantization:
    """The policy of one op, which the door through which it came sets.

    Attributes:
        rounding: How a sum is scaled. "double": by gemmlowp's fixed-point multiplier of 32 bits,
            rounded in the doubling high multiply and again in the right shift. "single": by a
            fixed-point multiplier whose product is rounded once, halves up, as ruy does it; of
            64-bit sums the multiplier keeps 15 bits, as in LiteRT's int16 kernels. "float": by a
            factor in double precision, halves away from zero. "even": the sum as a float32 is
            multiplied by a factor in single precision and rounded to nearest, halves to even, as
            ONNX Runtime does it.
        accumulator_bits: 32 or 64; sums wrap there.
    """

    rounding: str = "double"
    accumulator_bits: int = 32

    @property
    def is_known(self) -> bool:
        """Whether both are among the words defined here."""
        return self.rounding in ROUNDINGS and self.accumulator_bits in ACCUMULATOR_BITS
