"""Answers drawn over the picture that they are about."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from circlet.commands.answers import Class, Share
from circlet.commands.objects import Detection, KeyPoint
from circlet.commands.poses import LIMBS, Pose
from circlet.errors import FileError, InputError
from circlet.formats.pixels import picture_layout
from circlet.regular_files import write_file

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

_GOLDEN = 0.618034  # of the circle of hues: neighbours in number are far apart in colour
_LEAST_SIDE = 320  # smaller pictures are enlarged, so that what is written can be read
_MASK_PART = 0.55
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)
_LEAST_POINT_SCORE = 0.2


class Drawing:
    """A picture that is drawn on, as large as it is, or enlarged where it is small."""

    def __init__(self, picture: Image) -> None:
        from PIL import ImageDraw, ImageFont

        times = max(1, -(-_LEAST_SIDE // max(picture.size)))
        self.picture = picture.convert("RGB").resize([times * side for side in picture.size], 0)
        self.width, self.height = self.picture.size
        self.line = max(2, max(self.picture.size) // 250)
        self.font: FreeTypeFont | ImageFont = ImageFont.load_default(
            max(11, max(self.picture.size) // 40)
        )
        self.pen: ImageDraw = ImageDraw.Draw(self.picture)

    def detections(self, found: Sequence[Detection]) -> None:
        """Boxes with their labels, and key points."""
        for item in reversed(found):  # the best on top
            colour = colour_of(item.index)
            top, left, bottom, right = item.box
            corners = (
                sorted((self._x(left), self._x(right))),
                sorted((self._y(top), self._y(bottom))),
            )
            (x0, x1), (y0, y1) = corners
            self.pen.rectangle((x0, y0, x1, y1), outline=colour, width=self.line)
            self._points(item.points, colour)
            name = item.label or f"class {item.index}"
            self._text((x0, y0), f"{name} {item.score:.0%}", colour)

    def poses(self, found: Sequence[Pose]) -> None:
        """Skeletons of the key points that are likely enough."""
        for number, pose in enumerate(found):
            colour = colour_of(number)
            for first, second in LIMBS:
                ends = pose.points[first], pose.points[second]
                if min(point.score for point in ends) >= _LEAST_POINT_SCORE:
                    places = [(self._x(point.x), self._y(point.y)) for point in ends]
                    self.pen.line(places, fill=colour, width=self.line)
            self._points(pose.points, colour)

    def class_map(self, classes: np.ndarray, shares: Sequence[Share]) -> None:
        """A mask in the colours of classes, the largest class left clear if it is the first."""
        from PIL import Image, ImageDraw

        palette = np.array([colour_of(number) for number in range(256)], np.uint8)
        mask = Image.fromarray(palette[classes.astype(np.int64) % 256])
        opaque = Image.fromarray(np.where(classes == 0, 0, int(255 * _MASK_PART)).astype(np.uint8))
        size = self.picture.size
        self.picture.paste(mask.resize(size, 0), (0, 0), opaque.resize(size, 0))
        self.pen = ImageDraw.Draw(self.picture)
        y = 0
        for part in shares:
            name = part.label or f"class {part.index}"
            colour = colour_of(part.index) if part.index else _WHITE
            y = self._text((0, y), f"{name} {part.share:.1%}", colour, below=True)

    def caption(self, best: Sequence[Class]) -> None:
        """The best classes in the upper left corner."""
        y = 0
        for item in best:
            name = item.label or f"class {item.index}"
            y = self._text((0, y), f"{name}: {item.score:.3g}", _WHITE, below=True)

    def save(self, path: Path) -> None:
        """Write the picture, in the format of the name's ending; raises as `save_picture`."""
        save_picture(self.picture, path)

    def _points(self, points: Sequence[KeyPoint], colour: tuple[int, int, int]) -> None:
        radius = self.line + 1
        for point in points:
            if point.score >= _LEAST_POINT_SCORE:
                x, y = self._x(point.x), self._y(point.y)
                box = (x - radius, y - radius, x + radius, y + radius)
                self.pen.ellipse(box, fill=_WHITE, outline=colour, width=max(1, self.line // 2))

    def _text(
        self,
        place: tuple[float, float],
        text: str,
        colour: tuple[int, int, int],
        below: bool = False,
    ) -> int:
        """Text on a bar of the colour above or below a place, inside the picture; where it ends."""
        left, top, right, bottom = self.pen.textbbox((0, 0), text, font=self.font)
        width, height = right - left + 8, bottom - top + 6
        x = min(max(place[0], 0), max(0, self.width - width))
        y = min(max(place[1] - (0 if below else height), 0), max(0, self.height - height))
        self.pen.rectangle((x, y, x + width, y + height), fill=colour)
        is_bright = sum(colour) > 380
        ink = _BLACK if is_bright else _WHITE
        self.pen.text((x + 4 - left, y + 3 - top), text, fill=ink, font=self.font)
        return int(y + height)

    def _x(self, part: float) -> float:
        return float(np.clip(np.nan_to_num(part), -1, 2)) * self.width

    def _y(self, part: float) -> float:
        return float(np.clip(np.nan_to_num(part), -1, 2)) * self.height


def colour_of(number: int) -> tuple[int, int, int]:
    """The colour of a class, the same in every picture."""
    red, green, blue = colorsys.hsv_to_rgb((number * _GOLDEN) % 1, 0.75, 0.95)
    return int(255 * red), int(255 * green), int(255 * blue)


def output_picture(numbers: np.ndarray) -> Image | None:
    """An output of real numbers as a picture; None where it is none.

    It is [1, height, width, channels] or [1, channels, height, width]. Numbers in 0..1, -1..1 or
    0..255 become pixels, by the range that holds them.
    """
    from PIL import Image

    layout = picture_layout(numbers.shape) if numbers.ndim == 4 else ""
    if not layout:
        return None
    if layout == "NCHW":
        numbers = np.moveaxis(numbers, 1, -1)
    least, most = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    unit = (numbers + 1) * 127.5 if least < -0.05 else numbers * 255
    pixels = numbers if most > 2 else unit
    shown = np.nan_to_num(pixels).clip(0, 255).round().astype(np.uint8)[0]
    return Image.fromarray(shown[..., 0] if shown.shape[-1] == 1 else shown)


def save_picture(picture: Image, path: Path) -> None:
    """Write a picture, whole or not at all, in the format of the name's ending.

    Raises:
        InputError: No format of pictures has this ending.
        FileError: The file cannot be written.
    """
    from PIL import Image

    format_ = Image.registered_extensions().get(path.suffix.lower())
    if format_ is None or format_ not in Image.SAVE:
        raise InputError(
            "no format of pictures has this ending", where=str(path), fix="name a .png or .jpg"
        )
    packed = io.BytesIO()
    try:
        picture.save(packed, format_)
    except (OSError, ValueError, KeyError) as error:
        fix = "name a .png"
        raise FileError(
            "the drawing cannot be written", where=str(path), why=str(error), fix=fix
        ) from error
    write_file(path, packed.getvalue(), 0o644)
