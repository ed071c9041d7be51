"""What is said of a cost: a number, the interval that it lies in, and whether it was measured."""

from __future__ import annotations

from circlet.struct import Struct


class Estimate(Struct):
    """The time of one operator.

    Attributes:
        ns: What is expected, in nanoseconds.
        low, high: The interval that holds it with a probability of nine in ten.
        measured: Whether just this was measured, rather than predicted from others.
    """

    ns: float
    low: float
    high: float
    measured: bool = False
