"""What records claim of operators holds for every operator of the public networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import DType, Op, Quantization, Tensor
from circlet.ir.regions import BRANCHES, LOOPS
from circlet.ops import Effects, OpDef, all_records, find, get
from circlet.ops.operands import QUANTISED, data_inputs
from circlet.ops.verify import op_violations
from circlet.ops.work import work_of
from tests.corpora import ROOT, corpus

MOST_ELEMENTS = 1 << 20
# Their zero points are none of the type; LiteRT's kernels for UINT8 do not look.
STRANGE = {"ONE_recipe__Logistic_U8_000.tflite", "ONE_recipe__Tanh_U8_000.tflite"}


@cache
def _networks() -> dict[str, list[Op]]:
    """The operators of every public network that can be read and that keep their rules."""
    corpus("models")
    paths = [*(ROOT / "models").glob("*.tflite"), *(ROOT / "singleop/models").glob("*.tflite")]
    found: dict[str, list[Op]] = {}
    for path in sorted(paths):
        try:
            model = load(path)
        except CircletError:
            continue
        ops = [(op, graph) for graph in model.graphs for op in graph.ops if find(op.label)]
        found[path.name] = [op for op, graph in ops if not list(op_violations(op, graph))]
    return found


def _ops() -> Iterator[tuple[str, Op, OpDef]]:
    for name, ops in _networks().items():
        yield from ((name, op, get(op)) for op in ops)


def _is_plain(op: Op) -> bool:
    """Whether numpy can evaluate an operator on made-up elements, in little time."""
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    known = all(t.has_rank and None not in t.shape and t.dtype.has_numpy for t in tensors)
    return known and all(t.elements <= MOST_ELEMENTS and t.sparsity is None for t in tensors)


def _numbered(tensor: Tensor, start: int) -> np.ndarray:
    """Elements that tell where they stand, as far as the type goes."""
    if tensor.data is not None:
        return tensor.data
    values = np.arange(start, start + tensor.elements).reshape(tensor.static_shape)
    return values.astype(tensor.dtype.numpy)


def _run(op: Op) -> tuple[list[np.ndarray | None], list[np.ndarray]]:
    """Operands and results of an operator over numbered elements."""
    given = [None if t is None else _numbered(t, 1000 * i) for i, t in enumerate(op.inputs)]
    return given, get(op).evaluate(op, given)


def test_views_hold_the_elements_that_they_name() -> None:
    kinds: Counter[str] = Counter()
    for name, op, record in _ops():
        if record.view is None or not _is_plain(op):
            continue
        given, results = _run(op)
        for index, result in enumerate(results):
            view = record.view(op, index)
            if view is None:
                continue
            kinds[op.kind] += 1
            source = given[view.source]
            assert source is not None
            picks = [r.start + r.step * np.arange(r.count or 0) for r in view.ranges]
            wanted = source[np.ix_(*picks)] if picks else source
            np.testing.assert_array_equal(result.ravel(), wanted.ravel(), f"{name}: {op}")
    claimed = {record.kind for record in all_records() if record.view is not None}
    assert set(kinds) == claimed


def test_joined_inputs_lie_one_after_the_other() -> None:
    count = 0
    for name, op, record in _ops():
        scales = [t.quant for t in (*op.inputs, *op.outputs) if t is not None and t.quant]
        if record.joins is None or not _is_plain(op) or not _agree(scales):
            continue
        given, (result,) = _run(op)
        axis = record.joins(op)
        np.testing.assert_array_equal(
            result, np.concatenate([g for g in given if g is not None], axis), f"{name}: {op}"
        )
        count += 1
    assert count > 20


def test_scales_are_bound_as_records_say() -> None:
    shared, fixed = 0, 0
    for name, op, record in _ops():
        if not op.outputs or name in STRANGE or not _has_scale(op.outputs[0]):
            continue
        result = op.outputs[0]
        assert result.quant is not None
        if record.quant.same_as_input:
            source = data_inputs(op)[1 if op.kind.startswith("SELECT") else 0]
            assert not _has_scale(source) or result.quant.same_as(source.quant), f"{name}: {op}"
            shared += 1
        for dtype, scale, zero in record.quant.fixed:
            if dtype is result.dtype:
                assert result.quant.first == (np.float32(scale), zero), f"{name}: {op}"
                fixed += 1
    assert shared > 100 and fixed > 20


def test_work_is_no_less_than_the_data() -> None:
    kinds: Counter[str] = Counter()
    for name, op, _ in _ops():
        if not _is_plain(op) or op.kind in ("SHAPE", "RANK"):
            continue
        results = sum(tensor.size_bytes for tensor in op.outputs)
        assert work_of(op) >= results, f"{name}: {op}"
        kinds[op.label] += 1
    assert len(kinds) > 100


@pytest.mark.parametrize("record", list(all_records()), ids=lambda record: record.kind)
def test_claims_of_a_record_fit_together(record: OpDef) -> None:
    most = record.arity[1]
    assert all(index < most for index in record.shape_inputs)
    assert all(source < most for _, source in record.continues)
    rules = {rule.name for rule in record.rules}
    assert "same-scale" not in rules or record.quant.same_as_input
    runs = record.kind in LOOPS | BRANCHES
    assert runs is (record.effects is Effects.RUNS_GRAPHS)
    assert ("variable" in rules) is (
        record.effects in (Effects.READS_VARIABLE, Effects.WRITES_VARIABLE)
    )


def _has_scale(tensor: Tensor) -> bool:
    plain = tensor.quant is not None and tensor.quant.is_affine
    return tensor.dtype in QUANTISED and tensor.dtype is not DType.BOOL and plain


def _agree(scales: list[Quantization]) -> bool:
    return all(quant.same_as(scales[0]) for quant in scales)
