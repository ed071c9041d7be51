"""Networks of one operator with seeded weights, and their replay beside LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlet.formats import save
from circlet.ir import DType, Model, Quantization, Shape, Tensor
from circlet.ir.builder import Builder
from circlet.ops import get
from tests.replay import Row, replay

per_tensor, per_channel = Quantization.per_tensor, Quantization.per_channel


def integers(
    shape: tuple[int, ...], dtype: npt.DTypeLike, seed: int = 0, peak: int | None = None
) -> npt.NDArray[np.generic]:
    """Seeded whole numbers over the type's range, or in [-peak, peak]."""
    info = np.iinfo(np.dtype(dtype))
    low, high = (info.min, info.max) if peak is None else (-peak, peak)
    return np.random.default_rng(seed).integers(low, high, shape, dtype=dtype, endpoint=True)


def floats(shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[np.float32]:
    """Seeded normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def scales(count: int, middle: float, seed: int = 0) -> npt.NDArray[np.float32]:
    """Seeded scales within a factor of 8 of the middle."""
    exponents = np.random.default_rng(seed).uniform(-3, 3, count)
    return (middle * 2.0**exponents).astype(np.float32)


def single_op(
    kind: str,
    data: tuple[DType, Shape, Quantization | None],
    constants: list[Tensor | None],
    attrs: object,
    output: Quantization | None = None,
    *,
    data_index: int = 0,
) -> Model:
    """A model of one op: its data input, constants in schema order around it, one output."""
    builder = Builder(infer=lambda op: get(op).infer(op))
    inputs: list[Tensor | None] = list(constants)
    for tensor in constants:
        if tensor is not None:
            builder.graph.tensors.append(tensor)
    inputs.insert(data_index, builder.input("x", *data))
    result = builder.op(kind, inputs, attrs, name="y", quant=output)
    return builder.output(result).model()


def replay_single(model: Model, folder: Path) -> Row:
    """The one row of a model's replay, its file written into a scratch folder."""
    path = folder / "models" / "single.tflite"
    path.parent.mkdir(exist_ok=True)
    save(model, path)
    (row,) = replay(path, isolated=False)
    return row
