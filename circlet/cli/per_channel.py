"""The type of options that hold a number for each channel of a picture."""

from __future__ import annotations

import math

import click


class PerChannel(click.ParamType[tuple[float, ...]]):
    """Numbers with commas between them, as a tuple; all of them above `above`."""

    name = "numbers"

    def __init__(self, above: float = -math.inf) -> None:
        self.above = above

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The numbers of a text; click's usage error where it holds others."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not numbers with commas between them.", param, ctx)
        if not all(math.isfinite(number) and number > self.above for number in numbers):
            above = "" if math.isinf(self.above) else f" above {self.above:g}"
            self.fail(f"{value!r} has a number that is not finite{above}.", param, ctx)
        return numbers
