"""A front as a picture: SVG, with a title on each point for those who hover over it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from circlet.pareto.front import FrontPoint, ParetoFront
from circlet.words import counted

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 60, 56
_TICKS = 6
_LEGEND_Y, _LEGEND_STEP = 42, 130
_TIMES, _SIZES = ((1e6, "ms"), (1e3, "us")), ((2**20, "MiB"), (2**10, "KiB"))
_STYLE = """
text { font: 12px sans-serif; fill: #333 } .axis { stroke: #999 } .grid { stroke: #eee }
.other { fill: #c3c9d4 } .single { fill: #d95f02 } .front { fill: #1b6ca8 }
.line { fill: none; stroke: #1b6ca8; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .axis { stroke: #888 } .grid { stroke: #444 } .other { fill: #70788a }
}
"""


def front_svg(front: ParetoFront) -> str:
    """The points of a front and all others that were measured, time across and memory up."""
    every = [p for p in (*front.points, *front.others) if all(map(math.isfinite, p.point))]
    scale = _Scale(every)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}"><style>{_STYLE}</style>',
        f'<text x="{_LEFT}" y="20">{escape(front.model)}: time and memory of '
        f"{counted(len(every), 'placement')}</text>",
        *_axes(scale),
        *(_dot(scale, p, "single" if p.single else "other") for p in front.others if p in every),
        _line(scale, front.points),
        *(_dot(scale, point, "single" if point.single else "front") for point in front.points),
        *_legend(front),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Scale:
    """From times and sizes, in units that give readable numbers, to places in the picture."""

    def __init__(self, points: list[FrontPoint]) -> None:
        times, sizes = ([p.point[i] for p in points] for i in (0, 1))
        self._time, self.time = _unit(times, _TIMES)
        self._size, self.size = _unit(sizes, _SIZES)
        self.x = _range([time / self._time for time in times])
        self.y = _range([size / self._size for size in sizes])

    def of(self, point: FrontPoint) -> tuple[float, float]:
        """A point's time and size in the units of the axes."""
        return point.point[0] / self._time, point.point[1] / self._size

    def place(self, time: float, size: float) -> tuple[float, float]:
        """Where a point lies that is given in the units of the axes."""
        across = (time - self.x[0]) / (self.x[1] - self.x[0])
        up = (size - self.y[0]) / (self.y[1] - self.y[0])
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * width, _HEIGHT - _BOTTOM - up * height


def _unit(values: list[float], units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The first unit that the largest value has one of, else the last."""
    largest = max(values, default=0.0)
    return next((unit for unit in units if largest >= unit[0]), units[-1])


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = (high - low) * 0.08 or max(abs(high) * 0.1, 1e-6)
    return max(0.0, low - margin), high + margin


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) / _TICKS))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= _TICKS)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _axes(scale: _Scale) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in _ticks(*scale.x):
        x, _ = scale.place(value, scale.y[0])
        yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:.4g}</text>'
    for value in _ticks(*scale.y):
        _, y = scale.place(scale.x[0], value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>'
    yield (
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 14}" '
        f'text-anchor="middle">time, {scale.time}</text>'
    )
    middle = (_TOP + bottom) / 2
    yield (
        f'<text transform="translate(18 {middle}) rotate(-90)" '
        f'text-anchor="middle">memory, {scale.size}</text>'
    )


def _dot(scale: _Scale, point: FrontPoint, kind: str) -> str:
    time, size = scale.of(point)
    x, y = scale.place(time, size)
    setting = point.configuration.setting
    name = point.single or " + ".join(point.configuration.backends)
    title = (
        f"{name}, {setting.threads} thread{'s' * (setting.threads != 1)}, {setting.level}: "
        f"{time:.4g} {scale.time}, {size:.4g} {scale.size}"
    )
    return (
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5">'
        f"<title>{escape(title)}</title></circle>"
    )


def _line(scale: _Scale, points: tuple[FrontPoint, ...]) -> str:
    """The border of what the front beats: steps from point to point."""
    if not points:
        return ""
    places = [scale.place(*scale.of(point)) for point in points]
    path = f"M{places[0][0]:.1f},{places[0][1]:.1f}"
    path += "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
    return f'<path class="line" d="{path}"/>'


def _legend(front: ParetoFront) -> Iterator[str]:
    """The kinds of points that there are, below the title."""
    kinds = {"single" if p.single else "other" for p in front.others}
    kinds |= {"single" if p.single else "front" for p in front.points}
    words = (("front", "front"), ("single", "one backend"), ("other", "other placements"))
    shown = [(kind, text) for kind, text in words if kind in kinds]
    for number, (kind, text) in enumerate(shown):
        x = _LEFT + 5 + _LEGEND_STEP * number
        yield f'<circle class="{kind}" cx="{x}" cy="{_LEGEND_Y - 4}" r="4.5"/>'
        yield f'<text x="{x + 9}" y="{_LEGEND_Y}">{text}</text>'
