"""Results are written and read again, and a page is made of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench import bf16_result, plots
from bench.bf16_result import Rounded, Row, newest
from bench.classes import CLASSES
from bench.page import page
from bench.report import lines, page_of_all
from bench.result import Latency, Result, Run, from_json, newest_file, to_json
from bench.scaling_result import Curves, Point
from circlet.comparison.ratios import Interval


def latency(peer_us: float, our_us: float) -> Latency:
    ratio = peer_us / our_us
    times = {"litert": peer_us, "openvino": 3 * peer_us, "circlet": our_us}
    return Latency(times, {"circlet": our_us + 1}, "litert", Interval(ratio, ratio, ratio))


def a_run() -> Run:
    results = [
        Result("fast", "fp32", 10, 20, {1: latency(200.0, 100.0), 2: latency(150.0, 100.0)}),
        Result(
            "slow",
            "integer",
            10,
            20,
            {1: latency(100.0, 100.0)},
            differences={"litert": {"part": 0.01, "steps": 2}},
            slow={1: "90 % CONV_2D in conv_q8"},
        ),
        Result("tiny", "fp32", 1, 2, {1: latency(1.0, 1.6)}),
        Result(
            "odd",
            "fp32",
            1,
            2,
            refused={"openvino": "no such | <op> & 1", "circlet": "no"},
        ),
    ]
    date, engines = "2026-01-01T00:00:00Z", {"litert, fp32, 1 threads": "{}"}
    return Run(
        {"cpu": "one", "isa": "x86_64_v4+avx512vnni"},
        {"rounds": 3},
        {"fp32_gflops": 100.0},
        results,
        date,
        engines,
    )


LONG_NAME = "a_network_with_a_name_of_more_than_forty_letters_v2"


def started_run() -> Run:
    facts = {"cold_ms": 90.0, "warm_ms": 80.0, "peak_mib": 30.0, "after_mib": 30.0}
    ratio = {"ratio": 1.0, "ratio_low": 0.9, "ratio_high": 1.1}
    starts = {"litert": facts, "circlet": {**facts, **ratio}}
    return replace(a_run(), results=[Result(LONG_NAME, "fp32", 1, 2, starts=starts)])


def test_a_run_survives_json() -> None:
    run = a_run()
    assert from_json(to_json(run)) == run
    assert to_json(from_json(to_json(run))) == to_json(run)


def test_json_is_one_line_per_network() -> None:
    assert sum(line.startswith('{"name"') for line in to_json(a_run()).splitlines()) == 4


def test_results_of_another_version_are_refused() -> None:
    data = json.loads(to_json(a_run())) | {"version": 0}
    with pytest.raises(ValueError, match="version 0"):
        from_json(json.dumps(data))


def test_the_newest_run_of_a_class_of_machines_is_found(tmp_path: Path) -> None:
    for day, isa, cpus in (
        ("04", "x86_64_v4+amx_int8", 16),
        ("03", "x86_64_v3", 16),
        ("02", "x86_64_v4+amx_int8", 2),
        ("01", "x86_64_v4+amx_int8", 2),
    ):
        run = json.dumps({"machine": {"isa": isa, "cpus": cpus}})
        (tmp_path / f"run-2026-01-{day}.json").write_text(run)
    found = [newest_file("run", of, tmp_path) for of in (None, *CLASSES)]
    days = [path and path.stem.removeprefix("run-2026-01-") for path in found]
    assert days == ["04", "04", "02", None, "03", None]
    assert newest_file("run", folder=tmp_path / "absent") is None


def test_the_overview_has_each_class_of_machines_with_its_bars() -> None:
    machines = ({"isa": "aarch64", "cpu": "small"}, {"isa": "x86_64_v4+avx512vnni"})
    text = page_of_all([replace(a_run(), machine=machine) for machine in machines])
    assert text.index("## AVX-512 with VNNI") < text.index("## other processors")
    assert "| fp32 | 1 | 1 | 2.00 | 2.0 | 2.00 (fast) | 1.1 | 0 |" in text
    assert "| fp32 | 1 | 1 | 2.00 | 1.2 | 2.00 (fast) | 0.9 | 0 |" in text
    assert "(performance/other.md); small" in text


def test_the_overview_keeps_the_parts_of_classes_without_a_run() -> None:
    small, large = ({"isa": "aarch64", "cpu": "small"}, {"isa": "x86_64_v4+avx512vnni"})
    both = page_of_all([replace(a_run(), machine=machine) for machine in (small, large)])
    assert page_of_all([replace(a_run(), machine=large)], both) == both
    other = page_of_all([replace(a_run(), machine=large | {"cpu": "new"})], both)
    assert "; new, " in other and "(performance/other.md); small" in other


def test_more_threads_have_bars_of_their_own() -> None:
    amx = CLASSES[0]
    assert [amx.bars(threads).least for threads in (1, 2, 4, 16)] == [1.0, 1.0, 0.9, 0.9]


def test_means_leave_small_networks_and_other_classes_out() -> None:
    run = a_run()
    assert [result.name for result in run.compared(1, "fp32")] == ["fast"]
    assert run.mean(1, "fp32") == pytest.approx(2.0)
    assert run.mean(2, "integer", "hybrid") is None


def test_the_page_says_what_is_slower_and_why() -> None:
    text = page(a_run())
    assert "| slow | integer | 1 | 1.00 | 1.1 | 90 % CONV_2D in conv_q8 |" in text
    assert "| tiny | 1 | LiteRT | 1.00 | 1.60 | yes |" in text
    assert "| odd | OpenVINO | no such &#124; &lt;op&gt; &amp; 1 |" in text
    assert "| slow | integer | 2 steps | - | - |" in text
    assert "| fp32 | 1 | 1 | 2.00 | 2.0 | 2.00 (fast) | 1.1 | 0 |" in text


def test_a_large_difference_stands_out() -> None:
    far = replace(a_run().results[1], differences={"openvino": {"part": 0.5, "steps": 60}})
    assert "| slow | integer | - | - | **60 steps** |" in page(replace(a_run(), results=[far]))


def test_plots_are_the_same_for_the_same_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'circlet[bench]'")
    folders = [tmp_path / "first", tmp_path / "second"]
    points = [Point("fp32", "depth", at, {"circlet": 3.0 * at}) for at in (2, 4)]
    for folder in folders:
        plots.ratios(a_run(), folder)
        plots.ratios(a_run(), folder, 2)
        plots.starts(started_run(), folder)
        plots.curves(Curves("today", {}, points), folder)
    for name in ("ratios.svg", "ratios-2-threads.svg", "starts.svg", "scaling.svg"):
        first, second = ((folder / name).read_text() for folder in folders)
        assert first == second and len(first) < 100_000
    assert "fast" in (folders[0] / "ratios.svg").read_text()
    assert LONG_NAME in (folders[0] / "starts.svg").read_text()


def test_a_bar_says_its_ratio_and_the_peer(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'circlet[bench]'")
    plots.ratios(a_run(), tmp_path)
    picture = (tmp_path / "ratios.svg").read_text()
    assert "2.00x LiteRT" in picture and "1.00x LiteRT" in picture


def test_a_picture_is_for_light_and_for_dark_pages(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'circlet[bench]'")
    plots.ratios(a_run(), tmp_path)
    picture = (tmp_path / "ratios.svg").read_text()
    sheet = picture[picture.index("<style>") : picture.index("</style>")]
    assert "prefers-color-scheme: dark" in sheet
    drawn = set(re.findall(r"(?:fill|stroke): #\w{6}", picture.replace(sheet, "")))
    assert drawn and all(f'[style*="{colour}"]' in sheet for colour in drawn)


def test_only_networks_that_both_engines_started_are_drawn(tmp_path: Path) -> None:
    plots.starts(a_run(), tmp_path)
    assert not (tmp_path / "starts.svg").exists()
    assert "starts.svg" not in page(a_run()) and "starts.svg" in page(started_run())


def test_the_page_shows_curves() -> None:
    curves = Curves("today", {}, [Point("fp32", "depth", 4, {"circlet": 12.0})])
    assert "| fp32 | depth | 4 | - | - | 12.0 |" in page(a_run(), curves)


def test_a_line_is_printed_for_every_network() -> None:
    run = a_run()
    shown = [line for result in run.results for line in lines(result, run.machine_class)]
    assert len(shown) == 5 and shown[2].endswith("missed") and "no such" in shown[-1]


def test_the_class_bf16_has_a_section_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gain, times = Interval(2.0, 1.9, 2.1), {"circlet": 50.0, "circlet_f32": 100.0}
    rows = [
        Row("alone", 1, times, gain, None, 0.004, None),
        Row("beside", 1, {**times, "openvino": 75.0}, gain, Interval(1.5, 1.4, 1.6), None, 0.01),
    ]
    monkeypatch.setattr(bf16_result, "FOLDER", tmp_path)
    assert newest() is None
    Rounded("2026-01-01T00:00:00Z", {}, rows).write()
    text = page(a_run(), rounded=newest())
    assert "| alone | 1 | 100.0 | 50.0 | - | 2.00 | - | 0.004 | - |" in text
    assert "| beside | 1 | 100.0 | 50.0 | 75.0 | 2.00 | 1.50 | - | 0.01 |" in text
    assert "gain 2.00, ratio 1.50" in text
