"""Steps of a small language model beside ONNX Runtime and OpenVINO, and beside the memory.

A step reads `rows` words behind `--held` others: one is decoding, many are a prompt. Caches are
written in place (the same array before and behind). Every engine has a process of its own and they
take turns; times are medians of rounds. `GB/s` is of the fastest round and counts the bytes of the
file's weights, scales and zero points, and of the keys and values that are seen; its share is of
what the same number of threads read from memory at most, measured ahead of each line.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench import load
from bench.arguments import add_loaded, add_rounds, add_target, add_threads, parser
from bench.bandwidth import read_gbs
from bench.decoder import Decoder, feeds, model_bytes
from circlet.comparison.compare import Compared, compare
from circlet.comparison.networks import Network
from circlet.comparison.ratios import best_peer, ratio_of
from circlet.target.targets import Target, native_target, parse_target
from circlet.words import counted

FORMS = {
    "int4": Decoder(bits=4),
    "int4-zeros": Decoder(bits=4, zeros=True),
    "int4-128": Decoder(bits=4, block=128),
    "int4-rounded": Decoder(bits=4, accuracy=4),
    "int8": Decoder(bits=8),
    "int8-rounded": Decoder(bits=8, accuracy=4),
    "float": Decoder(bits=32),
}
_CACHES = ("present", "past_key_values")
_ENGINES = ("circlet", "onnxruntime", "openvino")


def main(arguments: Sequence[str]) -> None:
    """Print a line for each form, number of rows and number of threads."""
    known = parser("decode", __doc__)
    known.add_argument("--forms", default=",".join(FORMS), help="of weights, separated by commas")
    known.add_argument("--rows", default="1,8,128", help="words of a step, separated by commas")
    known.add_argument("--held", type=int, default=128, help="words before them")
    known.add_argument("--length", type=int, default=512, help="rows of the caches")
    known.add_argument("--layers", type=int, default=FORMS["int4"].layers)
    known.add_argument("--hidden", type=int, default=FORMS["int4"].hidden)
    known.add_argument("--engines", default=",".join(_ENGINES))
    known.add_argument("--keep", type=Path, help="a folder where the files stay")
    add_threads(known)
    add_rounds(known, 11)
    add_target(known)
    add_loaded(known)
    options = known.parse_args(arguments)
    unknown = set(options.forms.split(",")) - FORMS.keys()
    if unknown:
        known.error(f"there are no forms {', '.join(sorted(unknown))}; choose among {[*FORMS]}")
    load.watch(options.loaded)
    threads = [int(count) for count in options.threads.split(",")]
    target = native_target() if options.target == "native" else parse_target(options.target)
    memory = _Memory(target, threads)
    with tempfile.TemporaryDirectory(prefix="bench-decode-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for form in options.forms.split(","):
            decoder = _sized(FORMS[form], options.hidden, options.layers)
            path = folder / f"{form}-{options.layers}x{options.hidden}.onnx"
            if not path.exists():
                path.write_bytes(model_bytes(decoder))
            for line in _lines(form, decoder, path, options, memory):
                print(line, flush=True)
    for count, rate in memory.best.items():
        print(
            f"{counted(count, 'thread reads', 'threads read')} {rate:.1f} GB/s of memory",
            flush=True,
        )


class _Memory:
    """What numbers of threads read at most; what else the machine does makes single figures low.

    Attributes:
        best: Gigabytes a second, by the number of threads.
    """

    def __init__(self, target: Target, threads: Sequence[int]) -> None:
        self._target = target
        self.best = dict.fromkeys(threads, 0.0)

    def measure(self, threads: int) -> float:
        """The best so far, measured once more."""
        self.best[threads] = max(self.best[threads], read_gbs(self._target, threads))
        return self.best[threads]


def _sized(decoder: Decoder, hidden: int, layers: int) -> Decoder:
    """The same form with other numbers of columns and layers."""
    inner = hidden * decoder.inner // decoder.hidden // decoder.block * decoder.block
    heads = max(decoder.groups, hidden // decoder.size)
    return replace(decoder, hidden=hidden, layers=layers, inner=inner, heads=heads)


def _lines(
    form: str, decoder: Decoder, path: Path, options: object, memory: _Memory
) -> Iterator[str]:
    given = vars(options)
    network = Network(path, "hybrid" if decoder.bits < 32 else "fp32", 0, path.stat().st_size)
    for threads in memory.best:
        for rows in map(int, given["rows"].split(",")):
            peak = memory.measure(threads)
            found = compare(
                network,
                threads,
                given["rounds"],
                engines=given["engines"].split(","),
                target=given["target"],
                inputs=feeds(decoder, rows, given["held"], given["length"]),
                continued=_CACHES,
            )
            moved = decoder.weight_bytes + decoder.cache_bytes(given["held"] + rows)
            yield _line(f"{form:13} {rows:3} rows {threads} threads", rows, moved, peak, found)


def _line(title: str, rows: int, moved: int, peak: float, found: Compared) -> str:
    """What was measured, in one line; why engines did not run, behind it."""
    parts = [title]
    for engine, times in found.rounds.items():
        us = median(times)
        rate = moved / min(times) / 1e3
        parts.append(f"{engine} {us / 1e3:.2f} ms {rows / us * 1e6:.1f} words/s")
        if engine == "circlet":
            parts.append(f"{rate:.1f} GB/s, {rate / peak:.2f} of memory")
    peer = best_peer(found.rounds)
    if peer and "circlet" in found.rounds:
        ratio = ratio_of(found.rounds, peer)
        parts.append(f"{peer} / circlet {ratio.middle:.2f} [{ratio.low:.2f} {ratio.high:.2f}]")
    parts += [f"{engine}: {reason}" for engine, reason in found.refused.items()]
    parts += [f"{name} differs by {d.part:.1e}" for name, d in found.differences.items()]
    return "  ".join(parts)
