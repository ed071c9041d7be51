"""Files with StableHLO operators: options come back, LiteRT runs what is written, and so do we."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from circlet import Session
from circlet.errors import UnsupportedOpsError
from circlet.formats import dumps, load, save
from circlet.ir import DType, Graph, Model, Op, Origin, RawAttrs, Tensor
from circlet.ops import all_records
from circlet.ops.build import builder
from circlet.ops.stablehlo.choose import CompareAttrs
from circlet.ops.stablehlo.indexed import GatherAttrs, ScatterAttrs
from circlet.ops.stablehlo.pad import PadAttrs
from circlet.ops.stablehlo.random import RngAttrs
from circlet.ops.stablehlo.reduce import ReduceWindowAttrs, StablehloReduceWindowAttrs
from circlet.ops.verify import unsupported_report

F32 = DType.FLOAT32
WORDS: dict[str, object] = {
    "STABLEHLO_COMPARE": CompareAttrs("GT", "FLOAT_TOTAL_ORDER"),
    "STABLEHLO_RNG_BIT_GENERATOR": RngAttrs("THREEFRY"),
    "REDUCE_WINDOW": ReduceWindowAttrs("MAXIMUM"),
    "DILATE": None,
}
NAMES = [record.kind for record in all_records() if record.kind.startswith("STABLEHLO_")]
KINDS = [*(name for name in NAMES if name != "STABLEHLO_COMPOSITE"), "DILATE"]


def other_values(attrs: Any) -> Any:
    """Attributes that differ from their defaults in every list, number and flag."""
    made: dict[str, object] = {}
    for number, field in enumerate(fields(attrs)):
        value = getattr(attrs, field.name)
        if field.name == "precision_config":
            made[field.name] = ("HIGH", "DEFAULT")
        elif field.name == "window_reversal":
            made[field.name] = (True, False)
        elif isinstance(value, tuple):
            made[field.name] = (number, 1 << 40, -3)
        elif isinstance(value, bool):
            made[field.name] = not value
        elif isinstance(value, int):
            made[field.name] = number + 3
    return replace(attrs, **made)


@pytest.mark.parametrize("kind", [*KINDS, "REDUCE_WINDOW"])
@pytest.mark.parametrize("source", ["tflite", "circle"])
def test_options_come_back(kind: str, source: str) -> None:
    record = next(record for record in all_records() if record.kind == kind)
    attrs = WORDS.get(kind) or other_values(record.attrs())
    tensors = [Tensor(name, F32, (2,)) for name in ("x", "y")]
    op = Op(kind, [tensors[0]], [tensors[1]], attrs, Origin.of(0, "y"))
    graph = Graph("main", [tensors[0]], [tensors[1]], [op], tensors)
    regions = {"STABLEHLO_WHILE": 2, "STABLEHLO_CASE": 3}
    joins = regions.get(kind, int(record.element_regions))
    op.regions = [builder(f"region{number}", 50).build() for number in range(joins)]
    model = Model([graph, *op.regions])
    model.source_format = source
    found = load(dumps(model)).main.ops[0]
    assert (found.kind, found.attrs) == (kind, attrs)
    assert [region.name for region in found.regions] == [region.name for region in op.regions]


def body(kind: str, number: int) -> Graph:
    """A graph that joins two floats."""
    b = builder(f"body{number}", 100 * number)
    pair = [b.input(name, F32, ()) for name in ("a", "b")]
    return b.output(b.op(kind, pair, name="joined")).build()


def network() -> Model:
    """Several kinds in a row, as LiteRT runs them."""
    b = builder()
    x, at = b.input("x", F32, (4, 6)), b.input("at", DType.INT32, (3, 1))
    zero = b.constant("zero", np.float32(0))
    steps = b.constant("steps", np.array([1, 2], np.int32))
    apart = b.op("DILATE", [x, steps, zero], name="apart")
    padded = b.op("STABLEHLO_PAD", [apart, zero], PadAttrs((1, 0), (0, 1), (0, 1)), name="padded")
    attrs = StablehloReduceWindowAttrs((2, 3), (1, 2), padding=(0, 1, 0, 0))
    windows = b.op("STABLEHLO_REDUCE_WINDOW", [padded, zero], attrs, name="windows")
    b.graph.ops[-1].regions = [body("STABLEHLO_ADD", 1)]
    width = windows.static_shape[1]
    rows = b.op("STABLEHLO_GATHER", [windows, at], GatherAttrs((1,), (0,), (0,), 1, (1, width)),
                name="rows")  # fmt: skip
    places = ScatterAttrs(False, (1,), (0,), (0,), 1)
    scattered = b.op("STABLEHLO_SCATTER", [windows, at, rows], places, name="scattered")
    b.graph.ops[-1].regions = [body("STABLEHLO_MAXIMUM", 2)]
    b.output(b.op("STABLEHLO_MULTIPLY", [scattered, scattered], name="y"))
    model = Model([b.graph, *(region for op in b.graph.ops for region in op.regions)])
    model.source_format = "tflite"
    return model


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_network_runs_as_in_litert(backend: str, tmp_path: object) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    path = f"{tmp_path}/stablehlo.tflite"
    save(network(), path)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 6)).astype(np.float32)
    at = np.array([[3], [-1], [3]], np.int32)
    peer = litert.Interpreter(
        model_path=path, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    peer.allocate_tensors()
    for detail in peer.get_input_details():
        peer.set_tensor(detail["index"], x if detail["dtype"] is np.float32 else at)
    peer.invoke()
    wanted = peer.get_tensor(peer.get_output_details()[0]["index"])
    session = Session(path, backends=[backend], strict=backend == "cpu")
    (result,) = session.run([x, at]).values()
    np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)


def test_a_custom_call_is_refused_with_the_reason() -> None:
    x, y = Tensor("x", F32, (2,)), Tensor("y", F32, (2,))
    op = Op("STABLEHLO_CUSTOM_CALL", [x], [y], RawAttrs(), Origin.of(0, "y"))
    with pytest.raises(UnsupportedOpsError, match="the program that made the file"):
        unsupported_report(Graph("main", [x], [y], [op], [x, y]))
