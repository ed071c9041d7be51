"""Names of operators and of their sources that are each given once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from circlet.ir.graph import Op
from circlet.ir.origin import SourceOp


def operator_names(ops: Sequence[Op]) -> list[str]:
    """A name for each of some operators: its first output's, with its position where needed.

    Files have no names of operators; where the output has none, or one that another's has too,
    `#` and the position follow.
    """
    own = [op.outputs[0].name if op.outputs else "" for op in ops]
    counts = Counter(own)
    return [
        name if name and counts[name] == 1 else f"{name or op.label}#{index}"
        for index, (op, name) in enumerate(zip(ops, own, strict=True))
    ]


def source_names(ops: Iterable[Op]) -> dict[SourceOp, str]:
    """A name for each source of some operators, with its id where several have one name."""
    sources = sorted({source for op in ops for source in op.origin.sources})
    counts = Counter(source.name for source in sources)
    return {s: s.name if counts[s.name] == 1 else f"{s.name}#{s.id}" for s in sources}
