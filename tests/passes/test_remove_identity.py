from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops import all_records
from circlet.ops.build import builder
from circlet.passes.remove_identity import RemoveIdentity
from tests.passes.harness import rewritten

pytestmark = pytest.mark.smoke

SIZES = (3, 2, 4, 2)
IDENTITIES: dict[str, list[object]] = {
    "ADD_N": [],
    "BROADCAST_TO": [SIZES],
    "CAST": [],
    "CONCATENATION": [],
    "MIRROR_PAD": [[[0, 0]] * 4],
    "PAD": [[[0, 0]] * 4],
    "PADV2": [[[0, 0]] * 4],
    "RESHAPE": [SIZES],
    "SLICE": [[0] * 4, [-1] * 4],
    "SQUEEZE": [],
    "TILE": [[1] * 4],
    "TRANSPOSE": [[0, 1, 2, 3]],
}


def between_relus(kind: str, *operands: object) -> Graph:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, SIZES)], name="t")
    constants = [b.constant(f"c{i}", np.array(v, np.int32)) for i, v in enumerate(operands)]
    same = b.op(kind, [t, *constants], name="same", shape=SIZES)
    return b.output(b.op("RELU6", [same], name="y")).build()


@pytest.mark.parametrize("kind", IDENTITIES)
def test_identity_is_dropped(kind: str) -> None:
    graph = between_relus(kind, *IDENTITIES[kind])
    assert rewritten(graph, "remove-identity") == ["RELU", "RELU6"]
    assert graph.ops[0].origin.name == "t+same"


@pytest.mark.parametrize(("kind", "lists"), [("SLICE", 2), ("BROADCAST_TO", 1)])
def test_lists_that_only_a_run_knows_keep_an_op(kind: str, lists: int) -> None:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, (None,))], name="t")
    given = [b.input(f"list{i}", DType.INT32, (1,)) for i in range(lists)]
    made = b.op(kind, [t, *given], name="made", shape=(None,))
    graph = b.output(b.op("RELU6", [made], name="y")).build()
    assert not RemoveIdentity().run(graph)  # not run over arrays, for any lists would not do


@pytest.mark.parametrize(
    ("begin", "kinds"), [(0, ["RELU", "RELU6"]), (1, ["RELU", "SLICE", "RELU6"])]
)
def test_slices_of_an_open_size_go_where_they_take_all(begin: int, kinds: list[str]) -> None:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, (None,))], name="t")
    lists = [b.constant(f"c{v}", np.array([v], np.int32)) for v in (begin, -1)]
    made = b.op("SLICE", [t, *lists], name="made", shape=(None,))
    graph = b.output(b.op("RELU6", [made], name="y")).build()
    assert rewritten(graph, "remove-identity") == kinds


def test_every_identity_of_a_record_has_its_case() -> None:
    claimed = {record.kind for record in all_records() if record.identity is not None}
    assert claimed == {*IDENTITIES, "QUANTIZE"}


def quantized(b: Builder, first: float, second: float) -> Tensor:
    x = b.input("x", DType.INT8, (4,), Quantization.per_tensor(first, 3))
    quant = Quantization.per_tensor(second, 3)
    return b.op("QUANTIZE", [x], name="q", dtype=DType.INT8, shape=(4,), quant=quant)


@pytest.mark.parametrize(("scale", "kinds"), [(0.5, ["RELU"]), (0.25, ["QUANTIZE", "RELU"])])
def test_quantize_goes_only_with_equal_scales(scale: float, kinds: list[str]) -> None:
    b = builder()
    q = quantized(b, 0.5, scale)
    graph = b.output(b.op("RELU", [q], name="y", shape=(4,), quant=q.quant)).build()
    assert rewritten(graph, "remove-identity") == kinds


def test_transpose_that_moves_ones_stays() -> None:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, (2, 2))], name="t")
    swap = b.constant("swap", np.array([1, 0], np.int32))
    graph = b.output(b.op("TRANSPOSE", [t, swap], name="y")).build()
    assert rewritten(graph, "remove-identity") == ["RELU", "TRANSPOSE"]


def test_graph_output_keeps_its_tensor() -> None:
    b = builder()
    t = b.op("RELU", [b.input("x", DType.FLOAT32, (2, 2))], name="t")
    both = b.op("RELU6", [t], name="both")
    same = b.op("CONCATENATION", [t], name="same")
    graph = b.output(same, both).build()
    assert rewritten(graph, "remove-identity") == ["RELU", "RELU6"]
    assert graph.ops[0].outputs == [same] and graph.ops[1].inputs == [same]


def test_identity_from_input_to_output_stays() -> None:
    b = builder()
    graph = b.output(b.op("CONCATENATION", [b.input("x", DType.FLOAT32, (2,))])).build()
    assert rewritten(graph, "remove-identity") == ["CONCATENATION"]
