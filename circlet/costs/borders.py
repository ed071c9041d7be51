"""What partitions and changes of backend cost, measured on chains of one cheap operator.

Chains of poolings, which no backend joins into one, grow by the operator's own time with each
link; what is left for no link at all is what a partition costs, by the bytes that go in and out.
Two partitions of different backends, one behind the other, take longer than that by the transfer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from circlet.costs.alone import Loaded, load_all
from circlet.costs.calibration import Line, fitted_line
from circlet.costs.model import Costs
from circlet.costs.timing import Meter, Run
from circlet.errors import CircletError
from circlet.ir import DType, Graph, Tensor
from circlet.ops.build import builder
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.pool import Pool2DAttrs
from circlet.options import Options

LOGGER = logging.getLogger(__name__)
_SIDES = (8, 32, 128)  # images of 16 channels: 4 KiB, 64 KiB, 1 MiB
_CHANNELS = 16
_LINKS = (1, 3)
_POOL = Pool2DAttrs(SAME_UPPER, (1, 1), (2, 2))
_RESOLUTION = 0.05  # of a time, below which differences say nothing


class Chains(NamedTuple):
    """Poolings on one backend, of one size.

    Attributes:
        size: Bytes of an image.
        short, long: Chains of `_LINKS` poolings.
    """

    size: int
    short: Loaded
    long: Loaded


@dataclass(frozen=True)
class _InTurn:
    """Runs one after the other, as one."""

    runs: Sequence[Run]

    def __call__(self, limit_ns: int) -> None:
        for run in self.runs:
            run(limit_ns)


def pooling_chain(side: int, links: int) -> Graph:
    """Poolings of a square image, one behind the other; each of them leaves its size."""
    made = builder("chain")
    image: Tensor = made.input("image", DType.FLOAT32, (1, side, side, _CHANNELS))
    for link in range(links):
        image = made.op("MAX_POOL_2D", [image], _POOL, name=f"pool {link}")
    return made.output(image).build()


def chains(backend: str, options: Options) -> list[Chains]:
    """The chains of all sizes, or none where the backend does not take them."""
    graphs = [pooling_chain(side, links) for side in _SIDES for links in _LINKS]
    found = list(load_all(graphs, backend, options))
    loaded = [each for each in found if isinstance(each, Loaded)]
    if len(loaded) < len(graphs):
        return []
    pairs = zip(loaded[::2], loaded[1::2], strict=True)
    return [Chains(short.partition.inputs[0].size_bytes, short, long) for short, long in pairs]


def measure_border(costs: Costs, backend: str, meter: Meter) -> Line | None:
    """What a partition costs by the bytes in and out, kept; None where it cannot be measured.

    It is measured on one thread: waking others belongs to operators. Differences are told from
    the fastest runs, which what else the machine does disturbs least.
    """
    rows, errors = [], []
    try:
        for size, short, long in chains(backend, costs.options):
            bound = [chain.bound(1) for chain in (short, long)]
            one, three = meter.times([each.runner.run for each in bound])
            own = (three.low - one.low) / (_LINKS[1] - _LINKS[0])
            rows.append((2.0 * size, max(0.0, one.low - max(0.0, own))))
            errors.append(_RESOLUTION * three.low)
    except CircletError as error:
        LOGGER.warning("what a partition of %s costs is not measured: %s", backend, error.what)
        return None
    if not rows:
        return None
    line = fitted_line(rows, errors)
    costs.database.set_border(costs.context(backend, 1), *line)
    return line


def measure_transfers(costs: Costs, pairs: Iterable[tuple[str, str]], meter: Meter) -> None:
    """Times of handing values from one backend to another, kept; those that fail are left out.

    Args:
        pairs: The backends that write and those that read.
    """
    made: dict[str, list[Chains]] = {}
    for writer, reader in pairs:
        if not costs.steps.begins("transfer", writer, reader):
            continue
        border = [costs.known(name, 1).border.ns_per_byte for name in (writer, reader)]
        try:
            for name in (writer, reader):
                made[name] = made[name] if name in made else chains(name, costs.options)
            rows = list(_transfers(made[writer], made[reader], border, meter))
        except CircletError as error:
            LOGGER.warning("no transfer from %s to %s is measured: %s", writer, reader, error.what)
            continue
        contexts = costs.context(writer, 1), costs.context(reader, 1)
        costs.database.add_transfers(*contexts, rows)


def _transfers(
    writers: Sequence[Chains], readers: Sequence[Chains], border: Sequence[float], meter: Meter
) -> Iterator[tuple[int, float]]:
    for (size, first, _), (_, second, _) in zip(writers, readers, strict=False):
        alone = [each.bound(1) for each in (first, second)]
        before = first.bound(1)
        after = second.bound(1, before.outputs)
        in_turn = _InTurn((before.runner.run, after.runner.run))
        runs: list[Run] = [*(each.runner.run for each in alone), in_turn]
        one, other, together = (timing.low for timing in meter.times(runs))
        yield size, max(0.0, together - one - other + size * sum(border))
