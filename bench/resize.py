"""How long a network takes to be made ready for an input size that was never seen.

Each network is resized to fresh sizes, near its own and then further away, through `Session` and
through `Interpreter`; shown are the first resize, the median, and how many kernels' units had to be
compiled. Sizes that the network does not work for are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from unittest import mock

from bench.arguments import add_networks, parser
from bench.measure import CORPUS, chosen
from circlet import Interpreter, Session
from circlet.backends.cpu import resizer
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.config import Config
from circlet.errors import CircletError

Shape = tuple[int, ...]


@dataclass
class Resizes:
    """Milliseconds of each resize, and the units that were compiled."""

    milliseconds: list[float] = field(default_factory=list)
    units: int = 0

    def __str__(self) -> str:
        if not self.milliseconds:
            return "no other size"
        first, middle = self.milliseconds[0], median(self.milliseconds)
        count = len(self.milliseconds)
        return f"first {first:6.1f} ms, median of {count} {middle:6.1f} ms, {self.units} units"


def main(arguments: Sequence[str]) -> None:
    """Measure networks."""
    known = parser("resize", __doc__)
    add_networks(known, "the public corpora", "*mobilenet*,*deeplab*,*posenet*")
    known.add_argument("--sizes", type=int, default=15, help="resizes of each network")
    options = known.parse_args(arguments)
    for path in chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models):
        try:
            session = Session(path)
        except CircletError as error:
            print(f"{path.stem:44} {error.what}")
            continue
        shapes = list(fresh_shapes(session.inputs[0].shape))
        by_session = measured(_session_resizer(session), shapes, options.sizes)
        print(f"{path.stem:44} Session      {by_session}", flush=True)
        interpreter = Interpreter(str(path))
        interpreter.allocate_tensors()
        shapes = [shape for shape in shapes if shape != session.inputs[0].shape]
        by_interpreter = measured(_allocator(interpreter), shapes, options.sizes)
        print(f"{'':44} Interpreter  {by_interpreter}", flush=True)


def fresh_shapes(shape: Shape) -> Iterator[Shape]:
    """Other sizes of an image: nearer ones first, from half to twice the file's."""
    if len(shape) != 4:
        return
    batch, height, width, channels = shape
    for step in range(1, 64):
        for sign in (1, -1):
            change = sign * step * 8
            if min(height, width) + change >= min(height, width) // 2:
                yield batch, height + change, width + change, channels


def measured(resize: Callable[[Shape], object], shapes: Sequence[Shape], count: int) -> Resizes:
    """Times of the first `count` shapes that the network works for."""
    found = Resizes()

    def counted(units: Sequence[UnitSource], *, config: Config) -> list[bytes]:
        found.units += len(units)
        return compile_units(units, config=config)

    with mock.patch.object(resizer, "compile_units", counted):
        for shape in shapes:
            start = time.perf_counter()
            try:
                resize(shape)
            except CircletError:
                continue
            found.milliseconds.append((time.perf_counter() - start) * 1e3)
            if len(found.milliseconds) == count:
                break
    return found


def _session_resizer(session: Session) -> Callable[[Shape], object]:
    name = session.inputs[0].name
    return lambda shape: session.resized({name: shape})


def _allocator(interpreter: Interpreter) -> Callable[[Shape], None]:
    index = interpreter.get_input_details()[0]["index"]

    def allocate(shape: Shape) -> None:
        interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()

    return allocate
