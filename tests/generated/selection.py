"""Which kinds cases are made of, and the cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from circlet.ops import OpDef, all_records
from circlet.ops.onnx.record import PREFIX
from tests.generated.case import Case
from tests.generated.nodes.case import NodeCase
from tests.generated.nodes.check import NODES, make_node_case
from tests.generated.recipes import make_case, recipe_of

# Packages that recipes need, by what is in a kind's name.
_NEEDED = {PREFIX: "onnx", "Detection_PostProcess": "flatbuffers"}


def reached(record: OpDef) -> bool:
    """Whether a recipe makes cases of a kind."""
    return recipe_of(record) is not None or is_node(record)


def is_node(record: OpDef) -> bool:
    """Whether a kind is an ONNX operator that a recipe makes nodes of."""
    return record.kind.partition(PREFIX)[2] in NODES


def selected(kinds: Sequence[str] = ()) -> list[OpDef]:
    """The records that cases can be made of with the packages that are there, or those named."""
    absent = [word for word, package in _NEEDED.items() if find_spec(package) is None]
    return [
        record
        for record in all_records()
        if reached(record)
        and (not kinds or record.kind in kinds)
        and not any(word in record.kind for word in absent)
    ]


def cases(records: Sequence[OpDef], seed: int, count: int, first: int = 0) -> Iterator[Case]:
    """`count` cases of each record that is no ONNX operator."""
    for record in records:
        if not is_node(record):
            yield from (make_case(record, seed, n) for n in range(first, first + count))


def node_cases(
    records: Sequence[OpDef], seed: int, count: int, first: int = 0
) -> Iterator[NodeCase]:
    """`count` nodes of each record that is an ONNX operator."""
    for record in records:
        if is_node(record):
            yield from (make_node_case(record, seed, n) for n in range(first, first + count))
