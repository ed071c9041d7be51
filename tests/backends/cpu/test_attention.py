"""Attention as one kernel call: what fuses, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.backends.cpu.passes.fuse_attention import FuseAttention
from circlet.ir import DType, Graph, Tensor
from circlet.ops.arithmetic import AddAttrs, MulAttrs
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.quotient import DivAttrs
from circlet.ops.softmax import SoftmaxAttrs
from tests.backends.cpu.cases import Cases, Network, SideBySide, each_width
from tests.backends.cpu.harness import run_native
from tests.tiers import quick_of

F32 = DType.FLOAT32


@dataclass(frozen=True)
class _Case:
    """Sizes of q, k and v as BATCH_MATMUL takes them, and what stands between the products."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    mask: tuple[int, ...] | None = None
    factor: float | None = None
    turned: tuple[bool, bool] = (False, False)
    stack: tuple[int, ...] | None = None
    beta: float = 1.0
    divisor: float | None = None
    kept: tuple[int, ...] | None = None  # sizes of what says which scores stay
    fill: float = -float(np.finfo(np.float32).max)
    inverted: bool = False
    known: bool = False
    after: tuple[int, ...] | None = None  # sizes of a mask that is added last
    late: float | None = None  # a factor behind the masks
    is_guarded: bool = False  # rows of what is not a number become 0


CASES = {
    "one": _Case((32, 24), (24, 32), (32, 24)),
    "heads": _Case((2, 3, 40, 20), (2, 3, 20, 37), (2, 3, 37, 20), (2, 1, 1, 37), 0.2),
    "full_mask": _Case((2, 50, 16), (2, 16, 50), (2, 50, 33), (1, 50, 50)),
    "row_mask": _Case((2, 50, 16), (2, 16, 50), (2, 50, 33), (50, 1), 0.1, beta=0.5),
    "low_mask": _Case((9, 70), (70, 18), (18, 5), (18,)),
    "turned": _Case((3, 33, 8), (3, 45, 8), (3, 19, 45), turned=(True, True)),
    "shared_keys": _Case((4, 17, 8), (1, 8, 30), (1, 30, 16)),
    "reshaped": _Case((6, 21, 8), (6, 8, 29), (6, 29, 9), (2, 1, 1, 29), stack=(2, 3)),
    "divided": _Case((2, 3, 40, 20), (2, 3, 20, 37), (2, 3, 37, 20), (2, 1, 1, 37), divisor=4.5),
    "chosen": _Case((2, 50, 16), (2, 16, 50), (2, 50, 33), divisor=4.0, kept=(50, 50)),
    "chosen_by_keys": _Case((2, 9, 16), (2, 16, 50), (2, 50, 33), kept=(2, 1, 50), inverted=True),
    "chosen_by_constants": _Case(
        (9, 16), (16, 50), (50, 33), kept=(9, 50), known=True, fill=-np.inf
    ),
    "two_masks": _Case(
        (2, 3, 20, 8), (2, 3, 8, 29), (2, 3, 29, 9), (1, 3, 20, 29), 0.3, after=(2, 1, 1, 29)
    ),
    "chosen_and_added": _Case(
        (2, 50, 16), (2, 16, 50), (2, 50, 33), kept=(50, 50), after=(2, 1, 50)
    ),
    "late_factor": _Case((2, 50, 16), (2, 16, 50), (2, 50, 33), (2, 50, 50), 0.5, late=0.25),
    "late_factor_of_constants": _Case(
        (9, 16), (16, 50), (50, 33), kept=(9, 50), known=True, after=(50,), late=0.25
    ),
    "windows": _Case(
        (6, 21, 8), (6, 8, 21), (6, 21, 9), (1, 21, 21), stack=(2, 3), after=(2, 1, 21, 21)
    ),
    "guarded": _Case(
        (2, 50, 16), (2, 16, 50), (2, 50, 33), kept=(50, 50), fill=-np.inf, is_guarded=True
    ),
    "long": _Case((1, 300, 16), (1, 16, 400), (1, 400, 16), factor=0.25),
}


def _reshape(cases: Cases, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    sizes = cases.constant(np.array(shape, np.int32))
    return cases.builder.op("RESHAPE", [tensor, sizes])


def _chosen(cases: Cases, case: _Case, scores: Tensor) -> Tensor:
    """Scores, some of them masked; the first of every row is kept, but of guarded ones."""
    kept = np.random.default_rng(3).random(case.kept) < 0.7
    kept[..., 0] = True
    if case.is_guarded:
        kept[..., 3:5, :] = False
    values = ~kept if case.inverted else kept
    condition = cases.constant(values) if case.known else cases.given(values)
    pair = [scores, cases.constant(np.float32(case.fill))]
    return cases.builder.op("SELECT_V2", [condition, *(pair[::-1] if case.inverted else pair)])


def _attention(case: _Case) -> tuple[Cases, list[Tensor]]:
    """The network, and its tensors between the products."""
    cases = Cases()
    op = cases.builder.op
    q, k, v = (cases.data(F32, shape, scale=1.0) for shape in (case.q, case.k, case.v))
    between = [op("BATCH_MATMUL", [q, k], BatchMatMulAttrs(adj_y=case.turned[0]))]
    whole = between[0].static_shape
    if case.stack is not None:
        between.append(_reshape(cases, between[-1], (*case.stack, *whole[-2:])))
    if case.factor is not None:
        factor = cases.constant(np.float32(case.factor))
        between.append(op("MUL", [between[-1], factor], MulAttrs()))
    if case.divisor is not None:
        divisor = cases.constant(np.float32(case.divisor))
        between.append(op("DIV", [between[-1], divisor], DivAttrs()))
    if case.mask is not None:
        between.append(op("ADD", [cases.data(F32, case.mask), between[-1]], AddAttrs()))
    if case.kept is not None:
        between.append(_chosen(cases, case, between[-1]))
    if case.after is not None:
        between.append(op("ADD", [between[-1], cases.data(F32, case.after)], AddAttrs()))
    if case.late is not None:
        between.append(op("MUL", [between[-1], cases.constant(np.float32(case.late))], MulAttrs()))
    between.append(op("SOFTMAX", [between[-1]], SoftmaxAttrs(case.beta)))
    if case.is_guarded:
        asked = op("NOT_EQUAL", [between[-1], between[-1]])
        between.append(op("SELECT_V2", [asked, cases.constant(np.float32(0)), between[-1]]))
    if case.stack is not None:
        between.append(_reshape(cases, between[-1], whole))
    cases.op("BATCH_MATMUL", [between[-1], v], BatchMatMulAttrs(adj_y=case.turned[1]))
    return cases, between


def _fused(graph: Graph) -> Graph:
    made = replace(graph, ops=list(graph.ops))
    native_pipeline("O2", check=True).run(made)
    return made


def _network(case: str) -> Network:
    cases, _ = _attention(CASES[case])
    return _fused(cases.graph()), cases.inputs


# One of each part of the kernels; the others put these together.
PARTS = ("one", "heads", "row_mask", "turned", "chosen", "two_masks", "guarded", "long")
LAYERS = SideBySide(CASES, _network, apart=PARTS, threads=2)


@each_width
@pytest.mark.parametrize("case", quick_of(CASES, PARTS))
def test_attention_equals_its_parts(case: str, target: str) -> None:
    fused, inputs = _network(case)
    assert fused.ops[-1].kind == "FUSED_ATTENTION"
    assert {"BATCH_MATMUL", "SOFTMAX", "DIV"}.isdisjoint(op.kind for op in fused.ops)
    (wanted,) = evaluate_graph(_attention(CASES[case])[0].graph(), inputs)
    (got,) = LAYERS.outputs(case, target)
    assert np.abs(got - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())
    if CASES[case].is_guarded:
        assert not got[..., 3:5, :].any()


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("chosen", ["SELECT_V2"]),
        ("chosen_by_constants", []),
        ("two_masks", ["ADD"]),
        ("chosen_and_added", ["SELECT_V2", "ADD"]),
        ("late_factor", ["MUL"]),
        ("guarded", ["SELECT_V2"]),
    ],
)
def test_masks_are_one_before_the_call(case: str, kinds: list[str]) -> None:
    graph = _attention(CASES[case])[0].graph()
    assert FuseAttention().run(graph)
    assert [op.kind for op in graph.ops] == [*kinds, "FUSED_ATTENTION"]


def test_origins_of_all_parts_are_kept() -> None:
    cases, _ = _attention(CASES["heads"])
    graph = cases.graph()
    (op,) = _fused(graph).ops
    names = [part.origin.name for part in graph.ops]
    assert all(name in op.origin.name for name in names)


@pytest.mark.parametrize("case", ["heads", "long"])
def test_result_is_bit_identical_for_any_thread_count(case: str) -> None:
    cases, _ = _attention(CASES[case])
    graph = _fused(cases.graph())
    (one,), (two,) = (run_native(graph, cases.inputs, threads=n) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("seen", [0, 1, 2, 3])
def test_what_others_read_in_between_keeps_its_ops(seen: int) -> None:
    cases, between = _attention(CASES["heads"])
    cases.outputs.append(between[seen])
    assert "FUSED_ATTENTION" not in {op.kind for op in _fused(cases.graph()).ops}


@pytest.mark.parametrize(
    "case",
    [
        _Case((4, 16), (16, 32), (32, 16)),
        _Case((8, 16), (16, 1 << 15), (1 << 15, 64)),
    ],
    ids=["few_rows", "keys_larger_than_caches"],
)
def test_what_one_kernel_would_not_speed_up_stays(case: _Case) -> None:
    cases, _ = _attention(case)
    assert "FUSED_ATTENTION" not in {op.kind for op in _fused(cases.graph()).ops}


@pytest.mark.parametrize("fill", [-1e4, 0.0, 1e38])
def test_scores_that_a_mask_would_still_tell_apart_stay(fill: float) -> None:
    cases, _ = _attention(replace(CASES["chosen"], fill=fill))
    assert "FUSED_ATTENTION" not in {op.kind for op in _fused(cases.graph()).ops}


def test_layers_that_share_a_condition_share_the_mask() -> None:
    cases = Cases()
    op, condition = cases.builder.op, cases.given(np.tri(16, dtype=np.bool_))
    low = cases.constant(np.float32(-np.inf))
    x = cases.data(F32, (2, 16, 16), scale=1.0)
    for _ in range(3):
        scores = op("BATCH_MATMUL", [x, x], BatchMatMulAttrs(adj_y=True))
        masked = op("SELECT_V2", [condition, scores, low])
        x = op("BATCH_MATMUL", [op("SOFTMAX", [masked], SoftmaxAttrs(1.0)), x], BatchMatMulAttrs())
    cases.outputs.append(x)
    kinds = [o.kind for o in _fused(cases.graph()).ops]
    assert kinds == ["SELECT_V2", *["FUSED_ATTENTION"] * 3]


def test_product_of_two_scores_stays() -> None:
    cases = Cases()
    op = cases.builder.op
    q, k, v = (cases.data(F32, (16, 16), scale=1.0) for _ in range(3))
    first, second = (op("BATCH_MATMUL", [q, t], BatchMatMulAttrs()) for t in (k, v))
    both = op("ADD", [first, second], AddAttrs())
    cases.op("BATCH_MATMUL", [op("SOFTMAX", [both], SoftmaxAttrs(1.0)), v], BatchMatMulAttrs())
    assert "FUSED_ATTENTION" not in {o.kind for o in _fused(cases.graph()).ops}
