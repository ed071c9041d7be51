"""A name of two million bytes."""

from __future__ import annotations

from tests.attacks.build import add, encode, graph, model, tensor

CODE = "E-LIMIT"


def make() -> bytes:
    return encode(model(graph([tensor("x" * 2_000_000), tensor("y")], [add(0, 0, 1)])))
