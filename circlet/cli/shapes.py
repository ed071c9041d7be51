"""Shapes as users write them, and as they are shown in tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import click

from circlet.options import Shapes

_SIZES = re.compile(r"[0-9]{1,9}([,x][0-9]{1,9})*")


def _shapes(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> Shapes:
    found = {}
    for text in texts:
        name, mark, sizes = text.rpartition("=")
        if not mark or not _SIZES.fullmatch(sizes):
            raise click.BadParameter(f"{text!r} is not NAME=1,224,224,3", ctx, param)
        found[name] = tuple(map(int, re.split("[,x]", sizes)))
    return tuple(found.items())


shapes_option = partial(
    click.option,
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=SIZES",
    callback=_shapes,
    help="Sizes of an input, such as image=1,224,224,3; once for each input to change.",
)


def shape_text(shape: Sequence[int | None]) -> str:
    """Sizes with x between them, ? for unknown ones."""
    return "x".join("?" if size is None else str(size) for size in shape) or "scalar"
