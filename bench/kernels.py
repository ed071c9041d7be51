"""Times one row of the table of kernels, or all, in the public networks that measure them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.arguments import add_target, parser
from bench.steps import profile
from circlet.backends.cpu.tuning.variant import Variant
from circlet.backends.cpu.tuning.variants import VARIANTS
from circlet.profiling.roofline import TimedWork
from circlet.target.targets import missing_on_host, parse_target
from circlet.words import counted

CORPORA = Path(__file__).resolve().parents[2] / "shared" / "corpora"


def main(arguments: list[str]) -> None:
    """Print what each kernel takes in its network."""
    known = parser("kernels", __doc__)
    known.add_argument("names", nargs="*", metavar="KERNEL", help="as docs/kernels.md; else all")
    known.add_argument("--threads", type=int, default=1, help="of the runs that are timed")
    known.add_argument("--seconds", type=float, default=0.6, help="time to measure a network for")
    known.add_argument("--corpora", type=Path, default=CORPORA, help="folder of the networks")
    add_target(known)
    options = known.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(VARIANTS)):
        known.error(f"docs/kernels.md has no {', '.join(unknown)}")
    for row in VARIANTS.values():
        if not options.names or row.name in options.names:
            text = told(row, options.corpora, options.threads, options.seconds, options.target)
            print(f"{row.name:18} {text}")


def told(row: Variant, corpora: Path, threads: int, seconds: float, target: str = "native") -> str:
    """What a row's calls take, or why it is not measured."""
    if not row.network:
        return "no public network has it"
    missing = missing_on_host(parse_target(row.target))
    if missing:
        return f"this machine lacks {', '.join(missing)}"
    if row.precision != "f32":
        return f"measured with {row.precision} precision only"
    path = corpora / row.network
    if not path.exists():
        return f"there is no {path}"
    calls = list(_calls(row.name, profile(path, threads, seconds, target).rows))
    total, macs = sum(call.us for call in calls), sum(call.work.macs for call in calls)
    rate = f", {2e-3 * macs / total:.1f} GOP/s" if macs and total else ""
    return f"{total:10.2f} us in {counted(len(calls), 'call')} of {path.name}{rate}"


def _calls(name: str, rows: tuple[TimedWork, ...]) -> Iterator[TimedWork]:
    return (row for row in rows if row.work.kernel.partition("(")[0] == name)
