"""One execution: a seed and a number give a file, the file is read and run, something happens."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random

import numpy as np

from circlet import Session
from circlet.artifact.values import Value
from circlet.errors import CircletError, FormatError
from circlet.formats import dumps, load
from circlet.formats.arrays import Wanted, random_array
from circlet.ir.text import to_text
from circlet.limits import Limits
from circlet.ops.verify import violations
from tests.conformance import is_hybrid
from tests.fuzz import artifact_stages, growth, mutate_artifact, mutate_bytes, mutate_model, values
from tests.fuzz.generate import generate
from tests.fuzz.guard_page import guarded, guarded_copy
from tests.fuzz.seeds import Seed

LIMITS = Limits(
    tensor_bytes=1 << 24,
    memory_bytes=1 << 26,
    run_work=1 << 28,
    run_work_per_file_byte=0,
    loop_turns=300,
    run_seconds=2,
)
DEFECTS = ("E-PASS", "E-COMPILE", "E-ARTIFACT", "E-CIRCLET")
UNFIT_ARTIFACTS = ("E-ARTIFACT",)
SHARES = {"bytes": 20.0, "generated": 20.0, "network": 35.0, "artifact": 5.0}
SHARES |= dict.fromkeys(growth.MAKERS, 20 / len(growth.MAKERS))
if find_spec("onnx") is not None:
    SHARES["onnx"] = 10.0
TOLERANCE = 1e-4
ROUNDED_TOLERANCE = 1e-2
MOST_TAME = 1e3
_PACKAGE = str(Path(__file__).resolve().parents[2] / "circlet")


@dataclass(frozen=True)
class Case:
    """A hostile file.

    Attributes:
        number: Its place in the sequence of the seed.
        name: Which file it was made of, and how.
        data: Its bytes.
        native: Whether generated code runs it as well.
        maker: What made it: a key of `SHARES`.
    """

    number: int
    name: str
    data: bytes
    native: bool
    maker: str = "file"


@dataclass(frozen=True)
class Finding:
    """Something that must not happen; `signature` tells defects apart."""

    stage: str
    signature: str
    text: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


Outcome = str | Finding


def make_case(
    seed: int, number: int, seeds: Sequence[Seed], only: str = "", native: float = 0.0
) -> Case:
    """The case of a number, of one maker if it is named; the same for the same arguments.

    Generated code runs the share `native` of all cases.
    """
    random = Random(f"{seed}:{number}")
    chosen = random.choice(seeds)
    original, is_native = chosen.read(), random.random() < native
    (maker,) = random.choices([*SHARES], [*SHARES.values()])
    maker = only or maker
    try:
        data = _made(maker, original, random)
    except Exception:  # a seed that cannot be read, or a network that cannot be written
        maker, data = "bytes", mutate_bytes.mutate(original, random)
    is_new = maker in ("generated", "onnx") or maker in growth.MAKERS
    name = maker if is_new else f"{chosen.name} {maker}"
    return Case(number, name, data, is_native, maker)


def _made(maker: str, original: bytes, random: Random) -> bytes:
    """The file that a maker makes; only some of them need a seed."""
    if maker in growth.MAKERS:
        return growth.MAKERS[maker](random)
    if maker == "generated":
        return generate(random)
    if maker == "onnx":
        from tests.fuzz import mutate_onnx

        return mutate_onnx.make(random)
    if maker == "network":
        return mutate_model.mutate(original, random)
    if maker == "artifact":
        return mutate_artifact.mutate(mutate_artifact.artifact_of(original), random)
    return mutate_bytes.mutate(original, random)


def outcomes(case: Case) -> Iterator[tuple[str, Outcome]]:
    """What reading does, then what running does with each backend that the case is for."""
    if case.maker == "artifact":
        yield from _artifact_outcomes(case)
        return
    reading = _outcome("read", lambda: read(case.data))
    yield "read", reading
    if reading != "ok":
        return
    wanted: list[np.ndarray] = []
    got: list[np.ndarray] = []
    yield "reference", _outcome("reference", lambda: wanted.extend(_run(case, "reference")))
    if case.native:
        yield "native", _outcome("native", lambda: got.extend(_run(case, "cpu")))
        if wanted and got and _is_tame(case) and _has_tame_constants(case.data):
            yield "compare", _compared(case, wanted, got)


def _artifact_outcomes(case: Case) -> Iterator[tuple[str, Outcome]]:
    """What each way to look at an artifact does; here a damaged one is no defect of Circlet."""
    for name, stage in artifact_stages.STAGES:
        yield name, _outcome(name, partial(stage, case.data, LIMITS), UNFIT_ARTIFACTS)


def _compared(case: Case, wanted: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> Outcome:
    """Both backends give the same numbers, but for what is no number."""
    tolerance = ROUNDED_TOLERANCE if _rounds_within(case.data) else TOLERANCE
    if all(_equal(a, b, tolerance) for a, b in zip(wanted, got, strict=True)):
        return "ok"
    kinds = " ".join(sorted({op.label for graph in load(case.data).graphs for op in graph.ops}))
    pairs = "\n".join(f"{a!r}\n{b!r}" for a, b in zip(wanted, got, strict=True))
    return Finding("compare", f"differs: {kinds}", pairs)


def _rounds_within(data: bytes) -> bool:
    """Whether a hybrid operator rounds what another computed: a last bit may cost a whole step."""
    graphs = load(data).graphs
    made = {tensor for graph in graphs for op in graph.ops for tensor in op.outputs}
    return any(is_hybrid(op) and op.input(0) in made for graph in graphs for op in graph.ops)


def _equal(wanted: np.ndarray, got: np.ndarray, tolerance: float) -> bool:
    if wanted.shape != got.shape:
        return False
    if wanted.dtype.kind not in "fc":
        return bool(np.array_equal(wanted, got))
    finite = np.isfinite(wanted) & np.isfinite(got)
    if (np.isfinite(wanted) != np.isfinite(got)).any():
        return not np.isfinite(wanted).all()
    a, b = wanted[finite].astype(np.complex128), got[finite].astype(np.complex128)
    largest = np.abs(a).max(initial=1)
    return bool((np.abs(a - b) <= tolerance * largest).all())


def _outcome(stage: str, call: Callable[[], object], fair: Sequence[str] = ()) -> Outcome:
    try:
        call()
    except CircletError as error:
        if not _is_plain(str(error)):
            return Finding(stage, f"controls in the message of {error.code}", repr(str(error)))
        out_of_memory = _caused_by_memory(error)
        if (error.code in DEFECTS and error.code not in fair) or out_of_memory:
            return _finding(stage, "memory" if out_of_memory else error.code, error)
        return error.code
    except Exception as error:
        return _finding(stage, type(error).__name__, error)
    return "ok"


def _is_plain(text: str) -> bool:
    """Whether a terminal shows exactly this, line by line."""
    return all(line.isprintable() for line in text.split("\n"))


def _finding(stage: str, kind: str, error: BaseException) -> Finding:
    text = "".join(traceback.format_exception(error))
    return Finding(stage, f"{kind} at {_place(error)}", text)


def _place(error: BaseException) -> str:
    """The innermost line of Circlet that the first cause passed through."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    if not ours:
        return "unknown place"
    return f"{ours[-1].filename[len(_PACKAGE) + 1 :]}:{ours[-1].lineno}"


def _caused_by_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__
    return False


def read(data: bytes) -> None:
    """Everything that takes a file apart without running it."""
    model = load(data, LIMITS)
    list(violations(model))
    assert _is_plain(to_text(model)), "controls in the text of the network"
    if model.source_format != "onnx":
        load(dumps(model), LIMITS)
        return
    with suppress(FormatError):  # of operators that no .circle file can say
        load(dumps(model, "circle"), LIMITS)


def _run(case: Case, backend: str) -> list[np.ndarray]:
    """The first answer to random inputs; generated code gets buffers that end where memory does."""
    session = Session(
        case.data, backends=(backend, "reference"), threads=1, cache=False, limits=LIMITS
    )
    random = Random(case.number)
    inputs = [_input(value, random, _is_tame(case)) for value in session.inputs]
    plain = not any(-1 in v.shape or v.is_text for v in (*session.inputs, *session.outputs))
    if backend != "cpu" or not plain:
        return list(session.run(inputs).values())
    sizes = [value.empty().shape for value in session.outputs]  # refuses impossible ones
    pairs = zip(session.outputs, sizes, strict=True)
    outputs = [guarded(shape, value.dtype) for value, shape in pairs]
    call = session.bind([guarded_copy(array) for array in inputs], outputs)
    call()
    first = [array.copy() for array in outputs]
    call()
    return first


def _is_tame(case: Case) -> bool:
    """Whether the inputs are numbers that a network may meet; half the cases get others."""
    return case.number % 2 == 0


def _has_tame_constants(data: bytes) -> bool:
    """Whether sums of products keep their digits whatever the order of their terms."""
    constants = (t.data for graph in load(data).graphs for t in graph.tensors if t.data is not None)
    floats = (array for array in constants if array.dtype.kind in "fc")
    return all(bool((np.abs(array) < MOST_TAME).all()) for array in floats)


def _input(value: Value, random: Random, tame: bool) -> np.ndarray:
    dtype = np.dtype(value.dtype)
    if tame or dtype.hasobject:
        return random_array(Wanted(value.name, value.dtype, value.shape), random.getrandbits(32))
    pool = values.FLOATS if dtype.kind in "fc" else values.INTEGERS
    generator = np.random.default_rng(random.getrandbits(32))
    with np.errstate(all="ignore"):
        return np.asarray(generator.choice(np.array(pool), value.shape)).astype(dtype)
