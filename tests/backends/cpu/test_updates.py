"""Updates of slices happen in place where that is invisible."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, RawAttrs, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.resolve_variables import resolve_variables
from circlet.plan.partition import partition
from circlet.runtime.session import Session
from circlet.target.targets import native_target
from tests.backends.cpu.harness import check_native

SHAPE = (1, 6, 4)


def update(b: Builder, cache: Tensor, row: Tensor, at: Tensor, name: str) -> Tensor:
    return b.op("DYNAMIC_UPDATE_SLICE", [cache, row, at], name=name)


def operands(b: Builder) -> tuple[Tensor, Tensor, Tensor]:
    """What becomes the cache, a row of it, and where the row goes."""
    return (
        b.input("cache", DType.FLOAT32, SHAPE),
        b.input("row", DType.FLOAT32, (1, 1, 4)),
        b.input("at", DType.INT32, (3,)),
    )


def inputs() -> list[np.ndarray]:
    cache = np.arange(24, dtype=np.float32).reshape(SHAPE)
    return [cache, np.full((1, 1, 4), 99, np.float32), np.array([0, 2, 0], np.int32)]


def copies(graph: Graph) -> int:
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    kernels = [kernel for _, kernel in compile_partition(whole, native_target(), 1).steps]
    return sum("copy" in kernel for kernel in kernels)


def test_an_update_of_what_nothing_else_reads_copies_nothing() -> None:
    b = builder()
    cache, row, at = operands(b)
    scaled = b.op("NEG", [cache])
    first = update(b, scaled, row, at, "first")
    graph = b.output(b.op("ABS", [update(b, first, row, at, "second")])).build()
    assert copies(graph) == 0
    check_native(graph, inputs())


@pytest.mark.parametrize("other", ["reader before", "reader after", "reshape", "output", "input"])
def test_an_update_of_what_is_still_wanted_copies(other: str) -> None:
    b = builder()
    cache, row, at = operands(b)
    old = cache if other == "input" else b.op("NEG", [cache])
    outputs = []
    if other == "reader before":
        outputs.append(b.op("ABS", [old]))
    if other == "output":
        outputs.append(old)
    shown = b.op("RESHAPE", [old], ReshapeAttrs((6, 4))) if other == "reshape" else None
    new = update(b, old, row, at, "new")
    if other == "reader after":
        outputs.append(b.op("ABS", [old]))
    if shown is not None:
        outputs.append(b.op("ABS", [shown]))
    graph = b.output(*outputs, b.op("ABS", [new])).build()
    assert copies(graph) == 1
    check_native(graph, inputs())


def caching(reads_old: bool) -> Model:
    """Puts its row into a variable and returns the sum of the variable's rows."""
    b = builder("main")
    _, row, at = operands(b)
    b.graph.inputs[:] = [row, at]
    attrs = RawAttrs("VarHandleOptions", {"container": "", "shared_name": "cache"})
    handle = b.op("VAR_HANDLE", [], attrs, name="handle", dtype=DType.RESOURCE, shape=())
    old = b.op("READ_VARIABLE", [handle], RawAttrs(), name="old", dtype=DType.FLOAT32, shape=SHAPE)
    new = update(b, old, row, at, "new")
    b.op_many("ASSIGN_VARIABLE", [handle, new], [], RawAttrs())
    shown = b.op("ADD", [new, old if reads_old else new], name="shown")
    return Model([b.output(shown).build()])


@pytest.mark.parametrize("reads_old", [False, True])
def test_a_variable_is_updated_where_it_lives(reads_old: bool) -> None:
    model = caching(reads_old)
    sessions = [
        Session(dumps(model, "tflite"), backends=(name,), threads=1)
        for name in ("cpu", "reference")
    ]
    for turn in range(4):
        row = np.full((1, 1, 4), turn + 1, np.float32)
        given = [row, np.array([0, turn, 0], np.int32)]
        native, wanted = (session.run(given)["shown"] for session in sessions)
        np.testing.assert_array_equal(native, wanted)
    resolve_variables(model.main)
    assert copies(model.main) == (3 if reads_old else 0)
