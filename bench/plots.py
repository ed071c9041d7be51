"""Small plots for the documentation, the same bytes for the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.ratios import BARS
from bench.result import Run
from bench.scaling_result import Curves

_STYLE = {"svg.hashsalt": "circlet", "svg.fonttype": "none", "font.size": 7}
_COLOURS = {"litert": "tab:orange", "openvino": "tab:blue", "circlet": "tab:green"}
_LABELS = {"litert": "LiteRT", "openvino": "OpenVINO", "circlet": "Circlet"}


def ratios(run: Run, folder: Path) -> None:
    """Every network's ratio with its interval, by class; the bars as lines."""
    kinds = {"fp32": ("fp32",), "integer": ("integer", "hybrid")}
    shown = {key: list(run.compared(1, *value)) for key, value in kinds.items()}
    height = 0.17 * max(4, *(len(rows) for rows in shown.values())) + 0.8
    figure, axes = _figure(1, 2, (9.0, height))
    for axis, (key, results) in zip(axes, shown.items(), strict=True):
        results.sort(key=lambda result: _middle(result.latency[1].ratio))
        for place, result in enumerate(results):
            for threads, colour, shift in ((1, "tab:green", 0.15), (2, "tab:purple", -0.15)):
                row = result.latency.get(threads)
                if row is None or row.ratio is None:
                    continue
                middle, at = row.ratio.middle, place + shift
                axis.plot([row.ratio.low, row.ratio.high], [at, at], color=colour, linewidth=1)
                axis.plot([middle], [at], "o", color=colour, markersize=2.5)
        axis.set_yticks(range(len(results)), [result.name[:34] for result in results])
        axis.set_xscale("log", base=2)
        axis.axvline(1, color="black", linewidth=0.6)
        axis.axvline(BARS[key].mean, color="tab:red", linewidth=0.6, linestyle="--")
        axis.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
        axis.minorticks_off()
        axis.set_title(f"{' and '.join(kinds[key])}: best peer / Circlet")
    told = (
        "right of 1: Circlet is faster; green: 1 thread, purple: 2 threads; dashed: bar of the mean"
    )
    figure.suptitle(told, fontsize=7)
    _save(figure, folder / "ratios.svg")


def curves(found: Curves, folder: Path) -> None:
    """One picture per axis: time against size, per engine."""
    names = list(dict.fromkeys((point.kind, point.axis) for point in found.points))
    columns = 4
    rows = (len(names) + columns - 1) // columns
    figure, axes = _figure(rows, columns, (9.0, 2.0 * rows))
    from matplotlib import ticker

    for axis, (kind, along) in zip(axes, names, strict=False):
        points = [p for p in found.points if (p.kind, p.axis) == (kind, along)]
        for engine, colour in _COLOURS.items():
            line = [(p.at, p.us[engine]) for p in points if engine in p.us]
            sizes, times = [at for at, _ in line], [us for _, us in line]
            axis.plot(sizes, times, color=colour, marker=".", label=_LABELS[engine])
        axis.set_title(f"{kind}: {along}")
        places = sorted({p.at for p in points})
        axis.set_xscale("log", base=2)
        axis.set_xticks(places, [f"{at:g}" for at in places])
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_ylabel("us")
    axes[0].legend()
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    _save(figure, folder / "scaling.svg")


def _middle(ratio: Any) -> float:
    return ratio.middle if ratio else 0.0


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(_STYLE)
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    return figure, list(axes.flat)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
