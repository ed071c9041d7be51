"""Scales of blocks lie in tensors of their own, which go wherever the scaled tensor goes."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError
from circlet.formats import dumps, load
from circlet.ir import BlockwiseQuant, DType, Model, Quantization, Tensor
from circlet.ir.copy import copy_of
from circlet.ir.quant import BlockIndices, link_blocks
from circlet.ops.build import builder
from circlet.plan.cut import cut

DEPTH, BLOCK = 64, 32
EMPTY = np.zeros(0, np.float32), np.zeros(0, np.int64)


def _weights(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Elements [DEPTH, DEPTH] of 4 bits, and scales [DEPTH, 2] of their blocks."""
    random = np.random.default_rng(seed)
    elements = random.integers(-8, 8, (DEPTH, DEPTH)).astype(np.int8)
    return elements, (random.random((DEPTH, DEPTH // BLOCK)) / 16).astype(np.float16)


def _two_layers() -> Model:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, DEPTH))
    for seed in range(2):
        elements, scales = _weights(seed)
        halves = elements.reshape(-1, 2) & 15
        packed = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
        blocks = BlockwiseQuant(b.constant(f"scales {seed}", scales), None, BLOCK)
        quant = Quantization(*EMPTY, details=blocks)
        shape = (DEPTH, DEPTH)
        weights = b.constant(f"w {seed}", packed, quant, dtype=DType.INT4, shape=shape)
        x = b.op("FULLY_CONNECTED", [x, weights, None], name=f"y {seed}")
    return b.output(x).model()


def _product(x: np.ndarray, seed: int) -> np.ndarray:
    elements, scales = _weights(seed)
    return x @ (elements * np.repeat(scales.astype(np.float64), BLOCK, axis=1)).T


def test_the_second_of_two_layers_runs_alone() -> None:
    model = load(dumps(_two_layers(), "tflite"))
    first, second = model.main.ops
    part = load(dumps(cut(model, first.outputs, second.outputs), "tflite"))
    assert [t.name for t in part.main.constants()] == ["w 1", "scales 1"]
    x = np.random.default_rng(2).standard_normal((1, DEPTH)).astype(np.float32)
    (got,) = Session(part, backends=("reference",)).run([x]).values()
    np.testing.assert_allclose(got, _product(x, 1), rtol=1e-5, atol=1e-4)
    (whole,) = Session(model, backends=("reference",)).run([x]).values()
    np.testing.assert_allclose(whole, _product(_product(x, 0), 1), rtol=1e-4, atol=1e-3)


def test_a_copy_has_scales_of_its_own() -> None:
    model = load(dumps(_two_layers(), "tflite"))
    copy = copy_of(model)
    for tensor in copy.main.constants():
        details = tensor.quant.details if tensor.quant else None
        assert not isinstance(details, BlockwiseQuant) or details.scales in copy.main.tensors
    assert dumps(copy) == dumps(model)


@pytest.mark.parametrize(
    ("indices", "how"),
    [
        (BlockIndices(2, -1, 32), "does not exist"),
        (BlockIndices(0, 7, 32), "does not exist"),
        (BlockIndices(1, -1, 32), "by blocks themselves"),
    ],
)
def test_places_that_cannot_be_are_refused(indices: BlockIndices, how: str) -> None:
    blocks = Quantization(*EMPTY, details=indices)
    tensors = [Tensor("s", DType.FLOAT16, (1,)), Tensor("w", DType.INT4, (1, 32), blocks)]
    with pytest.raises(GraphError, match=how):
        link_blocks(tensors)
