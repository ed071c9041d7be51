"""The page of one class of machines, made of its newest run."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Protocol

from bench import bf16_result, compile_time_result, load, plots, scaling_result
from bench.ratios import MET, SMALL_US, mean_ratio
from bench.result import Latency, Result, Run
from circlet.comparison.outputs import TOLERANCES
from circlet.words import counted

NAMES = {
    "litert": "LiteRT",
    "litert_cached": "LiteRT (compiled model)",
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
    "circlet": "Circlet",
}
GROUPS = {"fp32": ("fp32",), "integer and hybrid": ("integer", "hybrid")}
SUMMARY = (
    "| class | threads | networks | geometric mean | bar | lowest | bar | below it |\n"
    "|---|---|---|---|---|---|---|---|"
)


def page(
    run: Run,
    curves: scaling_result.Curves | None = None,
    rounded: bf16_result.Rounded | None = None,
    compiling: compile_time_result.CompileTimes | None = None,
) -> str:
    """The whole page."""
    threads = run.threads
    parts = [
        _head(run),
        _loaded_note(loaded(run, curves, rounded, compiling)),
        _summary(run, threads),
        *(_latency_table(run, count) for count in threads),
        _slower(run, threads),
        _small(run, threads),
        _refusals(run),
        _differences(run),
        _further(run),
        compile_time_result.section(compiling),
        _starts(run),
        bf16_result.section(rounded),
        _curves(run, curves),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


class Measured(Protocol):
    """Figures with the facts of the machine that they were measured on."""

    @property
    def machine(self) -> Mapping[str, object]:
        """As `bench.machine.facts` and `bench.load.Watch.facts` say."""


def loaded(
    run: Measured, curves: Measured | None, rounded: Measured | None, compiling: Measured | None
) -> str:
    """Which figures were measured on a loaded machine, and what it did besides; or ""."""
    parts = {"latency": run, "scaling": curves, "bf16": rounded, "compiling": compiling}
    reasons = {name: load.reason(part.machine) for name, part in parts.items() if part}
    return "; ".join(f"{name}, {why}" for name, why in reasons.items() if why)


def _loaded_note(why: str) -> str:
    return f"**Measured under load, so times may be too long**: {why}." if why else ""


def _head(run: Run) -> str:
    machine = ", ".join(f"{key} {value}" for key, value in run.machine.items())
    peaks = ", ".join(f"{key} {value}" for key, value in run.peaks.items())
    settings = ", ".join(f"{key} {value}" for key, value in run.settings.items())
    return f"""# Performance: {run.machine_class.name}

Made by `python -m bench` ([how](../benchmarking.md)); run of {run.date}.

- Machine: {machine}.
- Peaks of a core: {peaks}.
- Settings: {settings}; {_peer_settings(run)}."""


def _peer_settings(run: Run) -> str:
    return (
        "LiteRT on XNNPACK (the faster of its interpreter and its compiled model with a weight "
        "cache), OpenVINO with its latency hint, one stream and bound tensors (f32 precision in "
        "the class fp32, its default elsewhere), ONNX Runtime with all optimisations and bound "
        "tensors, Circlet's bound call; every process pinned to "
        "the same CPUs, rounds alternate. Ratios are the best peer's time over Circlet's: above "
        "1 Circlet is faster. Intervals are 95 % bootstrap intervals of the median over rounds"
    )


def _summary(run: Run, threads: Sequence[int]) -> str:
    notes = (
        "The class of a network is that of the arithmetic that does most of its work: fp32 (float "
        "weights, float16 ones included), integer, hybrid (float activations, integer weights). "
        "Arithmetic in bf16 has to be asked for and stands apart, at the end of the page."
    )
    drawn = [f"{ratio_picture(run, count, '')}\n" for count in threads]
    parts = ["## Summary", "", SUMMARY, *summary_rows(run), "", notes, "", *drawn]
    return "\n".join(parts).rstrip()


def summary_rows(run: Run) -> list[str]:
    """Rows of the table `SUMMARY`, for each class of networks and number of threads."""
    return [
        _summary_row(run, name, count)
        for name, kinds in GROUPS.items()
        for count in run.threads
        if run.compared(count, *kinds)
    ]


def ratio_picture(run: Run, threads: int, folder: str) -> str:
    """The picture of a run's ratios, in a page that has the pages of classes in `folder`."""
    file = plots.ratios_file(threads)
    return (
        f"![The fastest peer's time over Circlet's, {run.machine_class.name}, "
        f"{counted(threads, 'thread')}]({folder}{run.machine_class.slug}/{file})"
    )


def _summary_row(run: Run, name: str, count: int) -> str:
    kinds = GROUPS[name]
    compared, bars = run.compared(count, *kinds), run.machine_class.bars(count)
    ratios = {r.name: _ratio(r.latency[count]) for r in compared}
    lowest = min(ratios, key=lambda key: ratios[key])
    below = sum(run.verdict(result, count) == "missed" for result in compared)
    return (
        f"| {name} | {count} | {len(compared)} | {run.mean(count, *kinds) or 0:.2f} | "
        f"{bars.mean(kinds[0])} | {ratios[lowest]:.2f} ({lowest}) | {bars.least} | {below} |"
    )


def _ratio(row: Latency) -> float:
    return row.ratio.middle if row.ratio else 0.0


def _table(title: str, text: str, columns: str) -> list[str]:
    """A section whose table has no rows yet; names of columns are separated by bars."""
    line = "|" + "---|" * (columns.count("|") + 1)
    return [f"## {title}", "", text, "", f"| {columns} |", line]


def _latency_table(run: Run, threads: int) -> str:
    rows = _table(
        f"Latency of the bound call, {counted(threads, 'thread')}",
        "Microseconds, median over rounds.",
        "network | class | LiteRT | ONNX Runtime | OpenVINO | Circlet | ratio | interval",
    )
    for kinds in GROUPS.values():
        found = run.compared(threads, *kinds)
        for result in sorted(found, key=lambda r: _ratio(r.latency[threads])):
            row = result.latency[threads]
            rows.append(f"| {result.name} | {result.kind} | {_times(row)} | {_interval(row)} |")
    return "\n".join(rows)


def _times(row: Latency) -> str:
    others = (row.us.get(name) for name in ("onnxruntime", "openvino", "circlet"))
    return " | ".join(_us(us) for us in (_litert(row.us), *others))


def _litert(values: Mapping[str, float]) -> float | None:
    return values.get("litert", values.get("litert_cached"))


def _interval(row: Latency) -> str:
    if row.ratio is None:
        return " | "
    return f"{row.ratio.middle:.2f} | {row.ratio.low:.2f} to {row.ratio.high:.2f}"


def _us(us: float | None) -> str:
    if us is None:
        return "-"
    return f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def _slower(run: Run, threads: Sequence[int]) -> str:
    rows = _table(
        "What is below its bar",
        "A network is listed if the lower end of its interval is not above "
        f"{MET} of the bar of this class of machines. The reason is where Circlet's time goes, by "
        "kernel call (`python -m bench explain`).",
        "network | class | threads | ratio | bar | where the time goes",
    )
    count = len(rows)
    for result in run.results:
        for used, row in result.latency.items():
            if used in threads and run.verdict(result, used) == "missed" and not row.is_small:
                rows.append(
                    f"| {result.name} | {result.kind} | {used} | {_ratio(row):.2f} | "
                    f"{run.machine_class.bars(used).least} | {result.slow.get(used, '')} |"
                )
    return "\n".join(rows) if len(rows) > count else "## What is below its bar\n\nNothing."


def _small(run: Run, threads: Sequence[int]) -> str:
    rows = _table(
        f"Networks that the best peer runs in under {SMALL_US:.0f} us",
        "Here the cost of a call counts, not kernels: Circlet is to be within 1 us, or faster.",
        "network | threads | best peer | us | Circlet us | within 1 us",
    )
    for result in run.results:
        for count, row in result.latency.items():
            if count in threads and row.is_small:
                met = "yes" if run.verdict(result, count) == "met" else "no"
                rows.append(
                    f"| {result.name} | {count} | {NAMES[row.best]} | {row.us[row.best]:.2f} | "
                    f"{row.us['circlet']:.2f} | {met} |"
                )
    return "\n".join(rows)


def _refusals(run: Run) -> str:
    rows = _table(
        "What an engine does not run",
        "ONNX Runtime reads .onnx alone and has no part in networks in .tflite; LiteRT has none in "
        "those in .onnx.",
        "network | engine | reason",
    )
    count = len(rows)
    for result in run.results:
        for engine, why in result.refused.items():
            if engine in NAMES and engine not in _other_format(result):
                text = html.escape(why[:160], quote=False).replace("|", "&#124;")
                rows.append(f"| {result.name} | {NAMES[engine]} | {text} |")
    return "\n".join(rows) if len(rows) > count else ""


def _other_format(result: Result) -> set[str]:
    """Engines that read another format than the one of the network."""
    reads_onnx = "onnxruntime" not in result.refused
    return {"litert", "litert_cached"} if reads_onnx else {"onnxruntime", "litert_cached"}


def _differences(run: Run) -> str:
    rows = _table(
        "How far the outputs of peers are from Circlet's",
        "The largest difference on random inputs, in steps of the integer type, or in parts of "
        "the range. Integers of Circlet are those of LiteRT's reference kernels bit for bit "
        "([conformance.md](../conformance.md)); peers round otherwise, or compute in floats. Bold: "
        "more than is expected of the class.",
        "network | class | LiteRT | ONNX Runtime | OpenVINO",
    )
    for result in run.results:
        if result.differences:
            found = result.differences
            peers = (found.get("onnxruntime"), found.get("openvino"))
            litert = found.get("litert", found.get("litert_cached"))
            cells = [_difference(one, TOLERANCES[result.kind]) for one in (litert, *peers)]
            rows.append(f"| {result.name} | {result.kind} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _difference(one: dict[str, float | str | None] | None, tolerance: float) -> str:
    if one is None:
        return "-"
    if one.get("note"):
        return f"**{one['note']}**"
    part = float(str(one.get("part", 0)))
    text = f"{part:.1g}" if one.get("steps") is None else _steps(float(str(one["steps"])))
    return f"**{text}**" if part > tolerance else text


def _steps(count: float) -> str:
    return "1 step" if count == 1 else f"{count:.0f} steps"


def _further(run: Run) -> str:
    rows = _table(
        "Convenience call, opening, compiling, sizes",
        "Microseconds of the convenience call at 1 thread (arrays in, arrays out), milliseconds to "
        "open with nothing cached but the C compiler's own files, seconds to compile, KiB of the "
        "artifact and of the model file.",
        "network | LiteRT us | ONNX Runtime us | OpenVINO us | Circlet us | LiteRT ms "
        "| ONNX Runtime ms | OpenVINO ms | compile s | artifact | file",
    )
    for result in run.results:
        row = result.latency.get(1)
        if row is None or result.artifact_bytes is None:
            continue
        calls, opened = row.convenient_us, result.open_ms
        others = (calls.get(name) for name in ("onnxruntime", "openvino", "circlet"))
        cells = [_us(us) for us in (_litert(calls), *others)]
        cells += [_us(opened.get(name)) for name in ("litert", "onnxruntime", "openvino")]
        cells += [f"{result.compile_s or 0:.2f}", f"{result.artifact_bytes / 1024:.0f}"]
        rows.append(f"| {result.name} | {' | '.join(cells)} | {result.bytes / 1024:.0f} |")
    return "\n".join(rows)


def _starts(run: Run) -> str:
    found = [result for result in run.results if "circlet" in result.starts]
    if not found:
        return ""
    rows = _table(
        "From process start to the first result, and memory",
        "Milliseconds from the start of a Python process to its first result, with warm caches "
        "(LiteRT's is its weight cache, which its interpreter has not), and for Circlet with a "
        "cold one; the ratio is LiteRT's time over Circlet's, round by round, with its interval; "
        f"MiB at the peak and after the first run. Numpy is imported everywhere."
        f"{_picture(run, found)}",
        "network | LiteRT ms | LiteRT, cached | OpenVINO ms | Circlet ms | Circlet cold | ratio "
        "| LiteRT MiB | OpenVINO MiB | Circlet MiB | LiteRT after | Circlet after",
    )
    for result in found:
        cells = [_fact(result, name, "warm_ms") for name in _STARTED]
        cells += [_fact(result, "circlet", "cold_ms"), _start_ratio(result)]
        cells += [_fact(result, name, "peak_mib") for name in ("litert", "openvino", "circlet")]
        cells += [_fact(result, name, "after_mib") for name in ("litert", "circlet")]
        rows.append(f"| {result.name} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", _start_summary(found)])


def _picture(run: Run, found: Sequence[Result]) -> str:
    if not any(map(plots.is_paired, found)):
        return ""
    return f"\n\n![Memory and start-up beside LiteRT]({run.machine_class.slug}/starts.svg)"


_STARTED = ("litert", "litert_cached", "openvino", "circlet")


def _fact(result: Result, engine: str, fact: str) -> str:
    value = result.starts.get(engine, {}).get(fact)
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _start_ratio(result: Result) -> str:
    facts = result.starts["circlet"]
    if "ratio" not in facts:
        return "-"
    return f"{facts['ratio']:.2f} [{facts['ratio_low']:.2f} {facts['ratio_high']:.2f}]"


def _start_summary(found: Sequence[Result]) -> str:
    pairs = [r.starts for r in found if "ratio" in r.starts["circlet"]]
    if not pairs:
        return ""
    times = [starts["circlet"]["ratio"] for starts in pairs]
    peaks = [starts["circlet"]["peak_mib"] - starts["litert"]["peak_mib"] for starts in pairs]
    sure = sum(starts["circlet"]["ratio_high"] < 1 for starts in pairs)
    worse = sum(ratio < 1 for ratio in times), sum(more > 0 for more in peaks)
    return (
        f"LiteRT's start over Circlet's: geometric mean {mean_ratio(times) or 0:.2f}, Circlet is "
        f"slower on {worse[0]} of {len(pairs)}, on {sure} of them beyond doubt. "
        f"Peak memory: median difference {median(peaks):+.1f} MiB, Circlet needs more "
        f"on {worse[1]}."
    )


def _curves(run: Run, curves: scaling_result.Curves | None) -> str:
    if curves is None:
        return ""
    rows = _table(
        "Scaling",
        f"Synthetic networks (`python -m bench scaling`), run of {curves.date}; microseconds."
        "\n\n![Peers' times over Circlet's as networks grow]"
        f"({run.machine_class.slug}/scaling.svg)",
        "network | along | at | LiteRT | OpenVINO | Circlet",
    )
    for point in curves.points:
        cells = [_us(point.us.get(name)) for name in ("litert", "openvino", "circlet")]
        rows.append(f"| {point.kind} | {point.axis} | {point.at} | {' | '.join(cells)} |")
    return "\n".join(rows)
