"""Random operators that move elements: computed as inferred, or refused by a coded error."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.ir import DType, Op, Origin, Tensor
from circlet.ops import find, unsupported_reason
from tests.ops.test_rules_guard import TYPES, random_attrs, random_quant

KINDS = (
    *("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "PACK", "UNPACK", "GATHER", "GATHER_ND"),
    *("EMBEDDING_LOOKUP", "SCATTER_ND", "DYNAMIC_UPDATE_SLICE", "SPARSE_TO_DENSE", "SELECT"),
    *("SELECT_V2", "WHERE", "TILE", "BROADCAST_TO", "FILL", "ZEROS_LIKE", "MIRROR_PAD"),
    *("REVERSE_V2", "REVERSE_SEQUENCE", "CUMSUM", "TOPK_V2", "ONE_HOT", "SPACE_TO_DEPTH"),
    *("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE", "SHAPE", "RANK", "RANGE"),
    *("MATRIX_DIAG", "MATRIX_SET_DIAG", "UNIQUE", "SEGMENT_SUM"),
    *("UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "BITCAST", "BITWISE_XOR", "RIGHT_SHIFT"),
    "BROADCAST_ARGS",
    *("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"),
)
# Chance rarely makes operands that fit.
RARE: tuple[str, ...] = (
    "MIRROR_PAD",
    "SPACE_TO_BATCH_ND",
    "BATCH_TO_SPACE_ND",
    "NON_MAX_SUPPRESSION_V4",
    "DEPTH_TO_SPACE",
)
RARE += ("NON_MAX_SUPPRESSION_V5", "SCATTER_ND", "SPARSE_TO_DENSE", "MATRIX_SET_DIAG")


def random_op(rng: np.random.Generator, kind: str) -> tuple[Op, list[np.ndarray]]:
    record = find(kind)
    assert record is not None
    main = TYPES[int(rng.integers(len(TYPES)))]
    form = record.dtypes[int(rng.integers(len(record.dtypes)))]
    inputs, _, output = form.partition(" -> ")
    words = inputs.split()
    words += words[-1:] * int(rng.integers(0, 2)) if record.arity[1] > len(words) else []
    types = [main if word == "*" else DType(word) for word in words]
    shape = tuple(int(n) for n in rng.choice([1, 2, 2, 3, 4], rng.integers(0, 5)))
    values = [random_values(rng, dtype, shape) for dtype in types]
    tensors: list[Tensor | None] = [random_tensor(rng, i, v) for i, v in enumerate(values)]
    count = record.outputs or int(rng.integers(1, 4))
    first = main if output == "*" else DType(output)
    index = DType(("INT32", "INT64")[int(rng.integers(2))])
    outputs = [Tensor("r0", first, (), random_quant(rng))]
    outputs += [
        Tensor(f"r{i}", first if record.outputs is None else index, ()) for i in range(1, count)
    ]
    return Op(kind, tensors, outputs, random_attrs(rng, record), Origin.of(0, "r0")), values


def random_values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Mostly of the common sizes, else a short list, a single value or other sizes."""
    other = tuple(int(n) for n in rng.choice([0, 1, 2, 3], rng.integers(0, 3)))
    choices = [shape, shape, (), (1,), (len(shape),), (len(shape), 2), shape[:1], shape[1:], other]
    sizes = choices[int(rng.integers(len(choices)))]
    return rng.integers(-1, 4, sizes).astype(dtype.numpy)


def random_tensor(rng: np.random.Generator, index: int, values: np.ndarray) -> Tensor:
    known = bool(rng.random() < 0.6)
    shape = tuple(None if not known and rng.random() < 0.1 else size for size in values.shape)
    data = values if known else None
    quant = random_quant(rng) if rng.random() < 0.3 else None
    return Tensor(f"t{index}", DType.of(values), shape, quant, data=data)


def is_computed(op: Op, values: list[np.ndarray]) -> bool:
    """Whether the op got through its rules and gave what its inference says."""
    record = find(op.kind)
    assert record is not None
    if unsupported_reason(op) or not all(rule.holds(op) for rule in record.rules):
        return False
    inferred = record.infer(op)
    with np.errstate(all="ignore"):
        results = record.evaluate(op, values)
    assert len(inferred) == len(results) == len(op.outputs)
    for known, result in zip(inferred, results, strict=True):
        assert DType.of(result) is known.dtype
        if any(t is not None and None in t.shape for t in op.inputs):
            continue
        assert len(known.shape) == result.ndim
        pairs = zip(known.shape, result.shape, strict=True)
        assert all(size in (None, actual) for size, actual in pairs)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_rules_let_through_is_computed(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    computed = 0
    for _ in range(600):
        op, values = random_op(rng, kind)
        try:
            computed += is_computed(op, values)
        except CircletError:
            continue
    assert computed > 0 or kind in RARE
