"""The well-formed and broken files that mutations start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.attacks import attack_names
from tests.corpora import ROOT
from tests.runtime import networks

MOST_BYTES = 100_000
FOLDERS = ("singleop/models", "models", "light", "malformed")
NETWORKS: dict[str, Callable[[], bytes]] = {
    "sum": networks.sum_and_difference,
    "relu": networks.relu,
    "quantised_relu": networks.quantised_relu,
    "mixed": networks.mixed,
    "convolutions": lambda: networks.convolutions(6, 4, 2),
}


@dataclass(frozen=True)
class Seed:
    """A file to start from, read or made when it is needed first."""

    name: str
    read: Callable[[], bytes]


def seeds() -> list[Seed]:
    """All seeds, in the same order on every machine that has the same corpora."""
    return [*_networks(), *_attacks(), *_corpus()]


def _networks() -> Iterator[Seed]:
    for name, make in NETWORKS.items():
        yield Seed(f"network/{name}", cache(make))


def _attacks() -> Iterator[Seed]:
    for name in attack_names():
        make: Callable[[], bytes] = import_module(f"tests.attacks.{name}").make
        yield Seed(f"attack/{name}", cache(make))


def _corpus() -> Iterator[Seed]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.tflite")):
            if path.stat().st_size <= MOST_BYTES:
                yield Seed(f"{folder}/{path.name}", _reader(path))


def _reader(path: Path) -> Callable[[], bytes]:
    return cache(path.read_bytes)
