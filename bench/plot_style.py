"""How plots look: one SVG for light and dark pages, the same bytes for the same figures.

A picture carries its own background and a style sheet that exchanges its colours where the reader
prefers a dark page; without one, as in a print, the light colours stand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class Colour(NamedTuple):
    """One role, on a light and on a dark page."""

    light: str
    dark: str


INK = Colour("#24292e", "#e4e7eb")
FAINT = Colour("#6a737d", "#9aa4b2")
GRID = Colour("#e1e4e8", "#343b46")
PAPER = Colour("#fefefe", "#1b1f27")
LITERT = Colour("#d9730d", "#f59e4a")
OPENVINO = Colour("#2f6fbf", "#6ea8f5")
ONNXRUNTIME = Colour("#8a4fbf", "#bb8af0")
CIRCLET = Colour("#138a5e", "#3fcf98")
_ALL = (INK, FAINT, GRID, PAPER, LITERT, OPENVINO, ONNXRUNTIME, CIRCLET)

ENGINES = {
    "litert": LITERT,
    "litert_cached": LITERT,
    "openvino": OPENVINO,
    "onnxruntime": ONNXRUNTIME,
    "circlet": CIRCLET,
}
_FONTS = ["DejaVu Sans", "Verdana", "Segoe UI", "Helvetica", "Arial", "sans-serif"]
_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "circlet",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": _FONTS,
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.edgecolor": GRID.light,
    "axes.labelcolor": FAINT.light,
    "axes.titlecolor": INK.light,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": PAPER.light,
    "grid.color": GRID.light,
    "grid.linewidth": 0.6,
    "text.color": INK.light,
    "xtick.color": GRID.light,
    "ytick.color": GRID.light,
    "xtick.labelcolor": FAINT.light,
    "ytick.labelcolor": INK.light,
    "legend.frameon": False,
}


def figure(rows: int, columns: int, size: tuple[float, float], **more: Any) -> tuple[Any, Any]:
    """A figure of so many inches and its axes, by row and column."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcdefaults()
    mpl.rcParams.update(_SETTINGS)
    from matplotlib import pyplot as plt

    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **more)


def powers_axis(axis: Any, ticks: list[float], text: str) -> None:
    """A logarithmic axis with these ticks alone, as plain numbers with a text behind each."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{text}"))


def save(drawn: Any, path: Path, title: str) -> None:
    """Write a figure with its title for readers of screens, and forget it."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, metadata={"Date": None, "Title": title})
    plt.close(drawn)
    text = path.read_text(encoding="utf-8")
    head, defs, rest = text.partition("<defs>")
    lines = (line.rstrip() for line in f"{head}{_style_sheet()}{defs}{rest}".splitlines())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _style_sheet() -> str:
    rules = [
        f'  [style*="{what}: {colour.light}"] {{ {what}: {colour.dark} !important; }}'
        for colour in _ALL
        for what in ("fill", "stroke")
    ]
    return "\n".join(
        [" <style>", " @media (prefers-color-scheme: dark) {", *rules, " }", " </style>", " "]
    )
