"""Attention of groups of heads over growing caches gives what the record gives, in place too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ops.build import infer_types
from circlet.ops.onnx.grouped_attention import KIND
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from tests.backends.cpu.cases import Cases, each_target
from tests.backends.cpu.harness import run_native

Array = np.ndarray


def attend(
    cases: Cases,
    rows: int,
    held: int,
    lengths: tuple[int, ...],
    total: int,
    *,
    heads: int = 4,
    groups: int = 2,
    size: int = 16,
    pairs: int = 0,
    packed: bool = False,
    places: bool = False,
    sink: bool = False,
    **more: Any,
) -> list[Tensor]:
    """The op over random operands; lengths are those of texts with the new rows, less 1."""
    batch, kind = len(lengths), DType.FLOAT32
    columns = (heads * size, groups * size, groups * size)
    if packed:
        rest = [cases.data(kind, (batch, rows, sum(columns)), scale=1), None, None]
    else:
        rest = [cases.data(kind, (batch, rows, n), scale=1) for n in columns]
    shape = (batch, groups, held, size)
    past = [cases.data(kind, shape, scale=1) if held else None for _ in "kv"]
    angles = np.random.default_rng(1).uniform(0, 6, (64, pairs)).astype(np.float32)
    tables = [cases.constant(f(angles)) if pairs else None for f in (np.cos, np.sin)]
    at = np.random.default_rng(2).integers(0, 64, (batch, rows))
    operands = [
        *rest,
        *past,
        cases.given(np.array(lengths, np.int32)),
        cases.constant(np.array(total, np.int32)),
        *tables,
        cases.given(at) if places else None,
        None,
        cases.constant(np.arange(heads, dtype=np.float32)) if sink else None,
    ]
    given = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": int(pairs > 0), **more}
    attrs = OnnxAttrs(tuple(sorted(given.items())), 1)
    made = [Tensor(f"{n}_{len(cases.outputs)}", kind, ()) for n in ("y", "keys", "values")]
    code = f"{PREFIX}{KIND}"
    cases.builder.op_many("CUSTOM", operands, made, attrs, custom_code=code)
    for tensor, inferred in zip(made, infer_types(cases.builder.graph.ops[-1]), strict=True):
        tensor.shape = inferred.shape
    cases.outputs.extend(made)
    return made


def all_forms() -> Cases:
    """Few and many rows, and every way to see keys."""
    cases = Cases()
    attend(cases, 1, 40, (25,), 40, heads=8, size=64, pairs=32)
    attend(cases, 1, 9, (8, 3), 9, size=20, pairs=5, packed=True)
    attend(cases, 1, 7, (7,), 8, heads=3, groups=3, pairs=8, rotary_interleaved=1)
    attend(cases, 5, 0, (4,), 5, heads=2, groups=2, size=24)
    attend(cases, 3, 20, (12,), 20, heads=4, groups=1, local_window_size=4)
    attend(cases, 33, 64, (40,), 64, heads=8, size=64, pairs=32, packed=True)
    attend(cases, 40, 0, (39, 39), 40, heads=6, groups=2, size=40, pairs=16, softcap=2.0)
    attend(cases, 24, 50, (45,), 50, local_window_size=7, sink=True)
    attend(cases, 2, 12, (9,), 12, smooth_softmax=1, scale=0.3, places=True, pairs=8)
    return cases


@each_target
def test_few_and_many_rows_equal_the_record(target: str) -> None:
    all_forms().check(target, threads=2, tolerance=5e-6)


def test_a_length_beyond_the_cache_stays_inside() -> None:
    cases = Cases()
    attend(cases, 1, 8, (1000,), 8)
    attend(cases, 2, 8, (-5,), 8)
    cases.check("native")


def test_a_step_worked_out_by_hand() -> None:
    """One head of one column; keys 0 and ln 3 share 1 : 3, so that values 4 and 8 give 7."""
    cases = Cases()
    operands = [
        *(cases.given(np.full((1, 1, 1), x, np.float32)) for x in (1, np.log(3), 8)),
        *(cases.given(np.full((1, 1, 3, 1), x, np.float32)) for x in (0, 4)),
        cases.given(np.array([1], np.int32)),
        cases.constant(np.array(3, np.int32)),
    ]
    made = [Tensor("y", DType.FLOAT32, (1, 1, 1))]
    made += [Tensor(n, DType.FLOAT32, (1, 1, 3, 1)) for n in ("keys", "values")]
    attrs = OnnxAttrs((("kv_num_heads", 1), ("num_heads", 1), ("scale", 1.0)), 1)
    cases.builder.op_many("CUSTOM", operands, made, attrs, custom_code=f"{PREFIX}{KIND}")
    cases.outputs.extend(made)
    seen, keys, values = run_native(cases.graph(), cases.inputs)
    assert seen.item() == pytest.approx(7)
    np.testing.assert_allclose(keys.reshape(-1), [0, np.log(3), 0], rtol=1e-6)
    np.testing.assert_array_equal(values.reshape(-1), [4, 8, 0])
