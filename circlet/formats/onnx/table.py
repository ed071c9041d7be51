"""The table of importers: an ONNX operator and the opset since which it means something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from circlet.ir import Tensor

if TYPE_CHECKING:
    from circlet.formats.onnx.node import Node

Import = Callable[["Node"], "Tensor | list[Tensor]"]
Row = TypeVar("Row", bound=Import)

_TABLE: dict[tuple[str, str], dict[int, Import]] = {}


def importer(kind: str, since: int = 1, domain: str = "") -> Callable[[Row], Row]:
    """Have a function import an operator from an opset on, until a later row of it."""

    def add(function: Row) -> Row:
        rows = _TABLE.setdefault((domain, kind), {})
        if since in rows:
            raise ValueError(f"{kind} has an importer since {since} already")
        rows[since] = function
        return function

    return add


def find_importer(domain: str, kind: str, opset: int) -> Import | None:
    """What imports an operator of an opset; None where nothing does."""
    rows = _TABLE.get((domain, kind), {})
    since = max((version for version in rows if version <= opset), default=None)
    return None if since is None else rows[since]


def imported_kinds() -> list[tuple[str, str]]:
    """Domain and kind of every operator that has a row."""
    return sorted(_TABLE)
