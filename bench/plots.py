"""The pictures of docs/performance.md, each drawn of one result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.plot_style import (
    CIRCLET,
    ENGINES,
    FAINT,
    GRID,
    INK,
    LITERT,
    OPENVINO,
    figure,
    powers_axis,
    save,
)
from bench.result import Latency, Result, Run
from bench.scaling_result import Curves
from circlet.words import counted

_CLASSES = {
    "Float (fp32)": ("fp32",),
    "Integer and hybrid": ("integer", "hybrid"),
}
_PEERS = {"litert": "LiteRT", "litert_cached": "LiteRT", "openvino": "OpenVINO"}
_PEERS |= {"onnxruntime": "ONNX Runtime"}
_KINDS = {"fp32": "Float (fp32)", "int8": "Integer (int8)"}
_ALONG = {
    "resolution": "height and width of the input (pixels)",
    "batch": "batch (pictures in one call)",
    "depth": "depth (separable blocks)",
    "threads": "threads",
}


def ratios(run: Run, folder: Path, threads: int = 1) -> None:
    """Sorted bars from 1x: the fastest peer's time over Circlet's, network by network."""
    shown = {title: _sorted(run, threads, kinds) for title, kinds in _CLASSES.items()}
    height = 0.165 * max(4, *(len(rows) for rows in shown.values())) + 1.3
    drawn, axes = figure(1, 2, (11.0, height))
    for axis, (title, rows) in zip(axes[0], shown.items(), strict=True):
        _bars(axis, rows)
        mean = run.mean(threads, *_CLASSES[title])
        axis.set_title(f"{title}: geometric mean {mean:.2f}x" if mean else title, weight="bold")
    peers = {
        _PEERS[result.latency[threads].best]: ENGINES[result.latency[threads].best]
        for kinds in _CLASSES.values()
        for result in run.compared(threads, *kinds)
    }
    _legend(drawn, {f"beside {name}": peers[name] for name in sorted(peers)})
    count = counted(threads, "thread")
    title = f"How many times faster than the fastest peer, {count}"
    drawn.supxlabel(
        "time of the fastest peer / time of Circlet (logarithmic, bars start at 1x: as fast as "
        f"the peer); thin lines: 95 % intervals; {count}",
        fontsize=7.5,
        color=FAINT.light,
    )
    save(drawn, folder / ratios_file(threads), title)


def ratios_file(threads: int) -> str:
    """The name of the picture of ratios at so many threads."""
    return "ratios.svg" if threads == 1 else f"ratios-{threads}-threads.svg"


def _sorted(run: Run, threads: int, kinds: Sequence[str]) -> list[tuple[str, Latency]]:
    found = [(result.name, result.latency[threads]) for result in run.compared(threads, *kinds)]
    return sorted(found, key=lambda row: _middle(row[1]))


def _middle(row: Latency) -> float:
    return row.ratio.middle if row.ratio else 1.0


def _bars(axis: Any, rows: Sequence[tuple[str, Latency]]) -> None:
    for place, (_, row) in enumerate(rows):
        if row.ratio is None:
            continue
        colour = ENGINES[row.best].light
        axis.barh(place, row.ratio.middle - 1, left=1, height=0.68, color=colour, linewidth=0)
        ends = [row.ratio.low, row.ratio.high]
        axis.plot(ends, [place, place], color=INK.light, linewidth=0.8)
        text = f"{row.ratio.middle:.2f}x {_PEERS[row.best]}"
        after = max(1.0, row.ratio.high) * 1.05
        axis.text(after, place, text, va="center", fontsize=6.5, color=FAINT.light)
    axis.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=7)
    axis.set_ylim(-0.7, len(rows) - 0.3)
    axis.set_xscale("log", base=2)
    least = min((_middle(row) for _, row in rows), default=1.0)
    axis.set_xlim(min(0.9, least / 1.2), 2.2 * max((_middle(row) for _, row in rows), default=2))
    powers_axis(axis.xaxis, [0.25, 0.5, 1, 2, 4, 8, 16, 32], "x")
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
    axis.axvline(1, color=INK.light, linewidth=1.1)
    axis.spines["left"].set_visible(False)


def curves(found: Curves, folder: Path) -> None:
    """Lines of each peer's time over Circlet's along every axis; 1x is as fast as Circlet."""
    kinds = list(dict.fromkeys(point.kind for point in found.points))
    along = list(dict.fromkeys(point.axis for point in found.points))
    size = (2.75 * max(2, len(along)), 2.2 * len(kinds) + 0.7)
    drawn, axes = figure(len(kinds), len(along), size, sharey="row")
    for row, kind in zip(axes, kinds, strict=True):
        for axis, name in zip(row, along, strict=True):
            _lines(axis, found, kind, name)
            axis.set_xlabel(_ALONG[name] if kind == kinds[-1] else "")
        low, high = row[0].get_ylim()
        row[0].set_ylim(min(low, 0.75), max(high, 1.25))
        row[0].set_ylabel("time of the peer / Circlet's")
        row[0].set_title(_KINDS.get(kind, kind), weight="bold")
    _legend(drawn, {"LiteRT": LITERT, "OpenVINO": OPENVINO, "Circlet = 1x": INK})
    save(drawn, folder / "scaling.svg", "Peers' times over Circlet's as synthetic networks grow")


def _lines(axis: Any, found: Curves, kind: str, name: str) -> None:
    points = [p for p in found.points if (p.kind, p.axis) == (kind, name) and "circlet" in p.us]
    places = sorted({point.at for point in points})
    for engine in ("litert", "openvino"):
        line = [(p.at, p.us[engine] / p.us["circlet"]) for p in points if engine in p.us]
        sizes, times = [at for at, _ in line], [ratio for _, ratio in line]
        axis.plot(sizes, times, color=ENGINES[engine].light, marker="o", markersize=3.5)
    axis.axhline(1, color=INK.light, linewidth=1.1)
    axis.set_xscale("log", base=2)
    powers_axis(axis.xaxis, [float(at) for at in places], "")
    axis.yaxis.set_major_formatter("{x:.1f}x")
    axis.margins(x=0.12)
    axis.grid(axis="y")


def starts(run: Run, folder: Path) -> None:
    """Start-up and memory of fresh processes beside LiteRT's, a pair of dots for each network."""
    rows = [result for result in run.results if is_paired(result)]
    if not rows:
        return
    rows.sort(key=lambda result: result.starts["litert"]["peak_mib"])
    drawn, axes = figure(1, 2, (11.0, 0.15 * len(rows) + 1.5), sharey=True)
    _pairs(axes[0][0], rows, "peak_mib", [20, 30, 50, 100, 200, 300])
    axes[0][0].set_title("Memory at the peak of a run", weight="bold")
    axes[0][0].set_xlabel("resident set at its peak (MiB, logarithmic)")
    axes[0][0].set_yticks(range(len(rows)), [result.name for result in rows], fontsize=7)
    axes[0][0].set_ylim(-0.8, len(rows) - 0.2)
    _pairs(axes[0][1], rows, "warm_ms", [60, 80, 100, 150, 200, 300, 400])
    axes[0][1].set_title("From process start to the first result, caches warm", weight="bold")
    axes[0][1].set_xlabel("milliseconds (logarithmic; less is better)")
    _legend(drawn, {"LiteRT": LITERT, "Circlet": CIRCLET})
    save(drawn, folder / "starts.svg", "Memory and start-up of fresh processes beside LiteRT")


def is_paired(result: Result) -> bool:
    """Whether a network was started by LiteRT and by Circlet, so that `starts` shows it."""
    facts = ("peak_mib", "warm_ms")
    return all(fact in result.starts.get(e, {}) for e in ("litert", "circlet") for fact in facts)


def _pairs(axis: Any, rows: Sequence[Result], fact: str, ticks: list[float]) -> None:
    for place, result in enumerate(rows):
        ends = [result.starts[engine][fact] for engine in ("litert", "circlet")]
        axis.plot(ends, [place, place], color=GRID.light, linewidth=2.2, zorder=1)
        for at, colour in zip(ends, (LITERT, CIRCLET), strict=True):
            axis.plot([at], [place], "o", color=colour.light, markersize=4, zorder=2)
    axis.set_xscale("log")
    powers_axis(axis.xaxis, ticks, "")
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
    axis.spines["left"].set_visible(False)


def _legend(drawn: Any, entries: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=colour.light, marker="s", linestyle="", markersize=6, label=text)
        for text, colour in entries.items()
    ]
    drawn.legend(handles=marks, loc="outside upper right", ncols=len(marks), fontsize=8)
