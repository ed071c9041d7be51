"""Fits the cost model's parameters to what tuning measured.

    circlet compile MODEL -o x.circlet --tune --json > report.json     # for several networks
    python -m bench fit report.json ... [--write]

What is minimised is regret: how much longer the candidate of the least predicted time takes than
the fastest one that was measured, in the mean over all questions; and, with less weight, how far
predicted ratios are from measured ones. A parameter moves only where that gains something.
`--write` stores the parameters in the package; `costs.json` holds what differs from the defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, log, prod
from pathlib import Path
from typing import Any

from bench.arguments import parser
from circlet.backends.cpu.costs import DATA, DEFAULT_COSTS, Costs, costs_of_level, level_of
from circlet.backends.cpu.lower.floats.tiles import lanes_of, registers_of, vectors_of
from circlet.backends.cpu.lowered import vector_bytes
from circlet.target.targets import Target, parse_target

FACTORS = (0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.5, 2.0, 4.0)
PARAMETERS = ("latency", "step", "load", "half_load", "tile", "piece", "dot_load", "dot_step")
_WINDOW = ("window_tile",)
_SPREAD_WEIGHT = 0.2
_WORTHWHILE = 0.995
_FLOAT = re.compile(r"conv_f32 (\d+)x(\d+)x(\d+) by ([\dx]+) of ")
_DOTS = re.compile(r"conv_q8 (\d+)x(\d+) of .*?-> \w+\[([\d,]+)\]")
_DEPTHWISE = re.compile(r"depthwise_f32 (\d+)x(\d+)x(\d+) of ")

Predict = Callable[[Costs], float]


@dataclass(frozen=True)
class Sample:
    """One question: how each candidate is predicted, and its microseconds."""

    predictions: tuple[Predict, ...]
    us: tuple[float, ...]

    def regret(self, costs: Costs) -> float:
        """The logarithm of what the predicted candidate takes over the fastest."""
        predicted = [predict(costs) for predict in self.predictions]
        return log(self.us[predicted.index(min(predicted))] / min(self.us))

    def spread(self, costs: Costs) -> float:
        """Mean squared error of the logarithms of times over their mean."""
        errors = [log(p(costs) / us) for p, us in zip(self.predictions, self.us, strict=True)]
        middle = sum(errors) / len(errors)
        return sum((error - middle) ** 2 for error in errors) / len(errors)


def main(arguments: list[str]) -> None:
    """Fit each instruction set that the reports are about."""
    known = parser("fit", __doc__)
    known.add_argument("reports", nargs="+", type=Path, help="what `compile --tune --json` printed")
    known.add_argument("--write", action="store_true", help=f"store them in {DATA.name}")
    options = known.parse_args(arguments)
    samples = samples_of(json.loads(path.read_text(encoding="utf-8")) for path in options.reports)
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    for level, found in samples.items():
        before = costs_of_level(level)
        after = fitted(before, found)
        print(f"{level}: {len(found)} questions, regret {told(before, found)}")
        print(f"  fitted: regret {told(after, found)}")
        stored[level] = changed(after)
        print(f"  {json.dumps(stored[level])}")
    if options.write:
        DATA.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def samples_of(reports: Iterable[dict[str, Any]]) -> dict[str, list[Sample]]:
    """The questions of reports that the model predicts, by instruction set."""
    samples: dict[str, list[Sample]] = {}
    for record in (record for report in reports for record in report["tuning"]):
        target = parse_target(record["target"])
        for answer in record["answers"]:
            sample = sample_of(target, answer["question"], answer["measured"])
            if sample is not None:
                samples.setdefault(level_of(target), []).append(sample)
    return samples


def sample_of(target: Target, question: str, measured: Sequence[dict[str, Any]]) -> Sample | None:
    """A question with several measured candidates, or None where the model does not rank them."""
    predictor = _predictor(target, question)
    if predictor is None or len(measured) < 2 or min(row["us"] for row in measured) <= 0:
        return None
    predictions = tuple(predictor(row["label"]) for row in measured)
    return Sample(predictions, tuple(float(row["us"]) for row in measured))


def _predictor(target: Target, question: str) -> Callable[[str], Predict] | None:
    lanes = lanes_of(vector_bytes(target))
    registers = registers_of(target, vector_bytes(target))
    if found := _FLOAT.match(question):
        width, (filters, *window) = int(found[3]), map(int, found[4].split("x"))
        return _float_tiles(width, vectors_of(registers, filters, lanes), prod(window))
    if found := _DOTS.match(question):
        channels = int(found[3].split(",")[-1])
        return _dot_tiles(int(found[2]), -(-channels // lanes))
    if found := _DEPTHWISE.match(question):
        return _windows(int(found[2]))
    return None


def _float_tiles(width: int, vectors: float, depth: int) -> Callable[[str], Predict]:
    def predictor(label: str) -> Predict:
        pixels, own = _numbers(label)
        tiles = -(-width // int(pixels)) * ceil(vectors / own)
        return lambda costs: tiles * costs.float_tile(int(pixels), own, depth)

    return predictor


def _dot_tiles(width: int, columns: int) -> Callable[[str], Predict]:
    def predictor(label: str) -> Predict:
        pixels, vectors = map(int, _numbers(label))
        tiles = -(-width // pixels) * -(-columns // vectors)
        return lambda costs: tiles * costs.dot_tile(pixels, vectors)

    return predictor


def _windows(width: int) -> Callable[[str], Predict]:
    def predictor(label: str) -> Predict:
        rows, columns, *_, pixels = map(int, _numbers(label))
        tiles = -(-width // pixels)
        return lambda costs: tiles * costs.window(pixels, max(1, rows * columns))

    return predictor


def _numbers(label: str) -> list[float]:
    """The numbers of a candidate's label, in order."""
    return [float(number) for number in re.findall(r"[\d.]+", label)]


def fitted(costs: Costs, samples: Sequence[Sample]) -> Costs:
    """Parameters with less regret: one after the other is scaled while that gains something."""
    best, least = costs, _loss(costs, samples)
    improved = True
    while improved:
        improved = False
        for trial in (t for name in (*PARAMETERS, *_WINDOW) for t in _scaled(best, name)):
            loss = _loss(trial, samples)
            if loss < _WORTHWHILE * least:
                best, least, improved = trial, loss, True
    return best


def _scaled(costs: Costs, name: str) -> list[Costs]:
    value = asdict(costs)[name]
    values = [value * factor for factor in FACTORS] if value else [0.25, 1.0, 4.0, 16.0]
    return [replace(costs, **{name: round(each, 3)}) for each in values]


def _loss(costs: Costs, samples: Sequence[Sample]) -> float:
    regret = sum(sample.regret(costs) for sample in samples)
    spread = sum(sample.spread(costs) for sample in samples)
    return (regret + _SPREAD_WEIGHT * spread) / len(samples)


def told(costs: Costs, samples: Sequence[Sample]) -> str:
    """The mean and the largest regret, as shares of time."""
    regrets = [sample.regret(costs) for sample in samples]
    return f"{100 * sum(regrets) / len(regrets):.2f} %, at most {100 * max(regrets):.0f} %"


def changed(costs: Costs) -> dict[str, float]:
    """The parameters that are not the defaults."""
    usual = asdict(DEFAULT_COSTS)
    return {name: value for name, value in asdict(costs).items() if value != usual[name]}
