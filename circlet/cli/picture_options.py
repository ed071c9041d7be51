"""The options that say how pictures become inputs, and what is shown of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import click

from circlet.commands.inputs import PixelOptions
from circlet.formats.pixels import RANGES


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


_OPTIONS = (
    click.option(
        "--pixels",
        "pixel_range",
        type=click.Choice(list(RANGES)),
        help="What pixels become. Default: what the model says or implies, else a stated guess.",
    ),
    click.option(
        "--mean",
        type=PerChannel(),
        help="Pixel value that becomes 0; one, or one a channel: 123.7,116.3,103.5.",
    ),
    click.option("--std", type=PerChannel(above=0), help="Pixels per 1.0; as --mean."),
    click.option(
        "--invert/--no-invert",
        "is_inverted",
        default=None,
        help="Exchange black and white. Default: only digits drawn dark on bright.",
    ),
    click.option(
        "--signed-bytes/--no-signed-bytes",
        "is_signed",
        default=None,
        help="Take a picture's bytes as signed. Default: only grey tones that wrap around.",
    ),
    click.option(
        "--min-score",
        "least_score",
        type=click.FloatRange(0),
        help="Of objects and poses. Default: the model's own; else 0.4, faces 0.5, poses 0.2.",
    ),
    click.option(
        "--draw",
        type=click.Path(path_type=Path),
        help="Write the picture with what was found in it.",
    ),
)


def picture_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options for pictures."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


def pixels_of(picked: dict[str, object]) -> PixelOptions:
    """What the user says of pixels, taken out of a command's options."""
    return PixelOptions(
        str(picked.pop("pixel_range") or ""),
        picked.pop("mean") or (),  # type: ignore[arg-type]
        picked.pop("std") or (),  # type: ignore[arg-type]
        picked.pop("is_inverted"),  # type: ignore[arg-type]
        picked.pop("is_signed"),  # type: ignore[arg-type]
    )
