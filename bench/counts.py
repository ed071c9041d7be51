"""How many operators are left of networks, beside the graphs that LiteRT and ONNX Runtime run.

Counts those of a file that its main graph reaches, as it is and after `circlet optimize` at O2 in
the same format; those that a session runs at O2; and the peer's. ONNX Runtime saves the graph that
it has optimised, with layouts of its own or without, and the smaller counts. LiteRT runs the
operators of the file: what a delegate makes of them cannot be read out. Constants are no operators,
and what only changes sizes counts nowhere, as it moves nothing. A dash stands where a file is not
read, cannot be written, or does not work with the sizes of 1 that stand for open ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.arguments import add_networks, parser
from bench.measure import CORPUS, chosen
from circlet import optimize
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import Op
from circlet.ir.regions import reachable
from circlet.options import Options

_SIZES = frozenset(
    {
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS"),
        *("Constant", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"),
    }
)
_HEADINGS = ("network", "file", "peer", "peer's graph", "O2, written", "O2, run")


@dataclass(frozen=True)
class Count:
    """Operators of one network; None where something does not read it.

    Attributes:
        network: The name of the file.
        file: In the file.
        peer: Who else runs such files.
        theirs: In the graph that the peer runs.
        written: In the file that `circlet optimize` makes of it, in the same format.
        run: What a session runs: operators that are joined in one kernel are one.
    """

    network: str
    file: int
    peer: str
    theirs: int | None
    written: int | None
    run: int | None

    @property
    def is_above(self) -> bool:
        """Whether a session runs more than the peer."""
        return self.theirs is not None and self.run is not None and self.run > self.theirs


def main(arguments: Sequence[str]) -> None:
    """Count, and print a row per network."""
    known = parser("counts", __doc__)
    add_networks(known, "the public corpora, .tflite and .onnx")
    known.add_argument("--page", type=Path, help="file that the table is written to, too")
    options = known.parse_args(arguments)
    both = [*sorted(CORPUS.glob("*.tflite")), *sorted(CORPUS.glob("*.onnx"))]
    counts = []
    for path in chosen(options.paths or both, options.models):
        try:
            counts.append(counted(path))
        except CircletError as error:
            print(f"{path.name}: {error}".splitlines()[0])
            continue
        print("  ".join(_cells(counts[-1])), flush=True)
    if options.page is not None:
        options.page.write_text(page(counts), encoding="utf-8")


def counted(path: Path) -> Count:
    """The counts of one file.

    Raises:
        CircletError: The file cannot be read.
    """
    is_onnx, file = path.suffix == ".onnx", _in_file(path)
    theirs = _of_onnxruntime(path) if is_onnx else file if _litert_runs(path) else None
    peer = "ONNX Runtime" if is_onnx else "LiteRT"
    return Count(path.name, file, peer, theirs, _written(path), _run(path))


def page(counts: Sequence[Count]) -> str:
    """The table, behind what it shows, as Markdown."""
    rows = [" | ".join(cells) for cells in (_HEADINGS, ("---",) * len(_HEADINGS))]
    rows += [" | ".join(_cells(count)) for count in counts]
    above = [count.network for count in counts if count.is_above]
    compared = sum(None not in (count.theirs, count.run) for count in counts)
    told = f"{len(above)} of {compared} above the peer's{': ' if above else ''}{', '.join(above)}."
    table = "\n".join(f"| {row} |" for row in rows)
    made = f"{__doc__}\nMade by `python -m bench counts --page docs/operator-counts.md`."
    return f"# Operators after O2\n\n{made}\n\n{told}\n\n{table}\n"


def _cells(count: Count) -> tuple[str, ...]:
    numbers = (count.theirs, count.written, count.run)
    theirs, written, run = ("-" if number is None else f"{number:,}" for number in numbers)
    return count.network, f"{count.file:,}", count.peer, theirs, written, run


def _written(path: Path) -> int | None:
    with tempfile.TemporaryDirectory(prefix="bench-counts-") as folder:
        try:
            target = Path(folder) / path.name
            optimize(path, "O2", format=path.suffix[1:]).save(target)
            return _in_file(target)
        except CircletError:
            return None


def _in_file(path: Path) -> int:
    """The operators of a file that its main graph reaches; of an .onnx file all nodes."""
    if path.suffix == ".onnx":
        return len(_nodes(path))
    return _moving(op for graph in reachable(load(path).main) for op in graph.ops)


def _moving(ops: Iterable[Op]) -> int:
    """How many ops do more than change sizes."""
    return sum(op.label not in _SIZES for op in ops)


def _run(path: Path) -> int | None:
    """The operators of all partitions, and of what they call."""
    options = Options()
    try:
        planned = plan(Template.read(path, options), options)
    except CircletError:
        return None
    ops = [op for part in planned.partitions for op in part.ops]
    called = {graph for op in ops for region in op.regions for graph in reachable(region)}
    return _moving(ops) + sum(_moving(graph.ops) for graph in called)


def _litert_runs(path: Path) -> bool:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):
        return False
    return True


def _of_onnxruntime(path: Path) -> int | None:
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-counts-") as folder:
        for level in (levels.ORT_ENABLE_EXTENDED, levels.ORT_ENABLE_ALL):
            settings, saved = onnxruntime.SessionOptions(), Path(folder) / f"{level.value}.onnx"
            settings.graph_optimization_level, settings.log_severity_level = level, 4
            settings.optimized_model_filepath = str(saved)
            try:
                onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
            except Exception as error:
                print(f"{path.name}: {error}".splitlines()[0])
                return None
            found.append(len(_nodes(saved)))
    return min(found)


def _nodes(path: Path) -> list[object]:
    """The nodes of an .onnx file, those of branches and bodies included, that are counted."""
    import onnx

    return [*_nodes_of(onnx.load(path).graph)]


def _nodes_of(graph: object) -> Iterator[object]:
    nodes: Iterable[object] = graph.node  # type: ignore[attr-defined]
    for node in nodes:
        if node.op_type not in _SIZES:  # type: ignore[attr-defined]
            yield node
        for attribute in node.attribute:  # type: ignore[attr-defined]
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes_of(inner)
