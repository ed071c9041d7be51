"""Networks on an OpenCL device: wall time, time of its kernels, and how near they are to its peaks.

Which device: the environment variable CIRCLET_OPENCL_DEVICE (docs/opencl.md). Printed per network:

    ops        how many operators the device runs, of all; numpy runs the others
    wall       a run as a user sees it: copies to and from the device included
    kernels    what the kernels took by the device's own clock
    roof       the least time that the device's peaks allow, operator by operator, as a share of
               that; its peaks of multiply-adds and of copies are measured first
    GFLOP/s    of the products, and their share of the peak
    products   what the kernels of float products took, and beside it
    PyTorch    the same products in float32 as one CUDA graph (bench/opencl_torch.py)
    cpu        a run on the backend cpu
    differ     the largest difference from numpy's answer, as a share of its largest value

    python -m bench opencl MODEL... [--artifacts FOLDER] [--json FILE]

Where nothing compiles C, the column cpu comes from artifacts of the same names that
`circlet compile` made beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.arguments import add_networks, parser
from bench.measure import CORPUS, chosen
from bench.opencl_peaks import DevicePeaks, measured_device_peaks
from bench.opencl_torch import is_float_product, missing, products_us
from circlet.backends.opencl.device import chosen_device
from circlet.errors import CircletError
from circlet.ir import Op
from circlet.profiling.calls import TimedCall, planned_again, timed_calls
from circlet.profiling.profiler import random_inputs
from circlet.profiling.timing import time_session
from circlet.runtime.load_artifact import load_artifact
from circlet.runtime.session import Session

NETWORKS = (
    *("mobilenet_v1_0.25_224_float", "vww_96_float", "resnet8_cifar10_float", "ad01_fp32"),
    *("face_detection_short_range", "deeplabv3_257_float", "style_transfer_f16_384"),
    *("mobilenet_v2_035_96_embedder", "mobilenet_v1_0.75_192_quant", "resnet8_cifar10_int8"),
)


@dataclass(frozen=True)
class Row:
    """One network on the device; times in microseconds, None where they could not be taken."""

    name: str
    ops: tuple[int, int]
    wall_us: float
    kernels_us: float
    least_us: float
    gflops: float
    products_us: float
    torch_us: float | None
    cpu_us: float | None
    differ: float | None


@dataclass(frozen=True)
class Ways:
    """How to measure.

    Attributes:
        seconds: For how long each network runs.
        artifacts: A folder of compiled networks for the column cpu, None to compile them.
        checks: Whether answers are compared with numpy's.
    """

    seconds: float
    artifacts: Path | None
    checks: bool


def main(arguments: Sequence[str]) -> None:
    """Print a line per network."""
    known = parser("opencl", __doc__)
    add_networks(known, "ten of the public corpora")
    known.add_argument("--artifacts", type=Path, help="folder of MODEL.circlet for the column cpu")
    known.add_argument("--seconds", type=float, default=1.0, help="time to measure each for")
    known.add_argument("--no-check", action="store_true", help="do not compare with numpy")
    known.add_argument("--json", type=Path, help="file for the rows")
    options = known.parse_args(arguments)
    device = chosen_device()
    peaks = measured_device_peaks(device)
    print(f"{device.facts.name}: {peaks.gflops:.0f} GFLOP/s float32, {peaks.gbs:.0f} GB/s copied")
    print(_notes(missing()), end="")
    ways = Ways(options.seconds, options.artifacts, not options.no_check)
    rows = []
    print(_HEADER)
    for path in chosen(options.paths or _defaults(), options.models):
        try:
            row, notes = measured(path, peaks, ways)
        except CircletError as error:
            print(f"{path.stem:32} {error}".splitlines()[0], flush=True)
            continue
        rows.append(row)
        print("\n".join([_line(row, peaks), *(f"    {note}" for note in notes)]), flush=True)
    if options.json:
        found = {"device": device.facts.name, "peaks": asdict(peaks)}
        record = {**found, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def measured(path: Path, peaks: DevicePeaks, ways: Ways) -> tuple[Row, list[str]]:
    """A network's row, and what is to be said of what it lacks.

    Raises:
        CircletError: It cannot be read, compiled or run.
    """
    session = Session(path, backends=("opencl", "reference"), cache=False)
    inputs = random_inputs(session)
    times = time_session(session, inputs, seconds=ways.seconds)
    planned = planned_again(session)
    calls = [
        call for call in timed_calls(session, planned, times.partitions) if call.backend == "opencl"
    ]
    ops = [op for part in planned.partitions if part.backend == "opencl" for op in part.ops]
    products = [op for op in ops if is_float_product(op)]
    notes: list[str] = []
    row = Row(
        name=path.stem,
        ops=(sum(r["backend"] == "opencl" for r in session.placement), len(session.placement)),
        wall_us=times.plain_ns / 1e3,
        kernels_us=sum(call.us for call in calls),
        least_us=sum(peaks.least_us(call.work.macs, call.work.bytes) for call in calls),
        gflops=_gflops(calls),
        products_us=_products(calls, products),
        torch_us=_torch(products, notes),
        cpu_us=_cpu(path, inputs, ways, notes),
        differ=_difference(path, session, inputs) if ways.checks else None,
    )
    return row, notes


def _gflops(calls: Sequence[TimedCall]) -> float:
    us = sum(call.us for call in calls)
    return 2 * sum(call.work.macs for call in calls) / us / 1e3 if us else 0.0


def _products(calls: Sequence[TimedCall], products: Sequence[Op]) -> float:
    """What the kernels of some ops took."""
    wanted = {tuple((s.id, s.name) for s in op.origin.sources) for op in products}
    kinds = {op.kind for op in products}
    return sum(c.us for c in calls if c.work.kind in kinds and c.work.sources in wanted)


def _torch(products: Sequence[Op], notes: list[str]) -> float | None:
    """Microseconds of PyTorch for the same products."""
    if not products or missing():
        return None
    try:
        return products_us(products)
    except RuntimeError as error:  # PyTorch's own, of a product or of the GPU
        notes.append(f"no time of PyTorch: {str(error).splitlines()[0]}")
        return None


def _cpu(path: Path, inputs: list[np.ndarray], ways: Ways, notes: list[str]) -> float | None:
    """Microseconds of a run on the backend cpu."""
    try:
        if ways.artifacts is None:
            session = Session(path, backends=("cpu", "reference"), strict=True)
        else:
            session = load_artifact(ways.artifacts / f"{path.stem}.circlet")
        return time_session(session, inputs, seconds=ways.seconds).plain_ns / 1e3
    except CircletError as error:
        notes.append(f"no time on cpu: {error.what}")
        return None


def _difference(path: Path, session: Session, inputs: list[np.ndarray]) -> float:
    """The largest difference from numpy's answer, as a share of its largest value."""
    exact = Session(path, backends=("reference",), cache=False)
    worst = 0.0
    for got, wanted in zip(session.run(inputs).values(), exact.run(inputs).values(), strict=True):
        size = np.abs(wanted.astype(np.float64)).max(initial=1e-30)
        worst = max(worst, float(np.abs(got.astype(np.float64) - wanted).max(initial=0) / size))
    return worst


def _defaults() -> list[Path]:
    return [CORPUS / f"{name}.tflite" for name in NETWORKS]


_HEADER = (
    f"{'network':32} {'ops':>9} {'wall':>9} {'kernels':>9} {'roof':>5} {'GFLOP/s':>8} {'peak':>5} "
    f"{'products':>9} {'PyTorch':>9} {'cpu':>10} {'differ':>8}"
)


def _line(row: Row, peaks: DevicePeaks) -> str:
    roof = row.least_us / row.kernels_us if row.kernels_us else 0.0
    return (
        f"{row.name[:32]:32} {f'{row.ops[0]}/{row.ops[1]}':>9} {row.wall_us:9.0f} "
        f"{row.kernels_us:9.0f} {roof:5.0%} {row.gflops:8.1f} {row.gflops / peaks.gflops:5.1%} "
        f"{row.products_us:9.0f} {_shown(row.torch_us, 9)} {_shown(row.cpu_us, 10)} "
        + ("       -" if row.differ is None else f"{row.differ:8.1e}")
    )


def _shown(us: float | None, width: int) -> str:
    return f"{'-':>{width}}" if us is None else f"{us:{width}.0f}"


def _notes(reason: str) -> str:
    return f"no times of PyTorch: {reason}\n" if reason else ""
