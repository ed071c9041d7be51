"""Many small ops in one graph, so that a table of cases costs one compilation per target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.operands import limits
from tests.backends.cpu.harness import TARGETS, check_native, runnable

QUANT = Quantization.per_tensor(0.05, 3)

each_target = pytest.mark.parametrize("target", TARGETS)


class Cases:
    """Collects ops and their inputs; every op's result becomes a graph output."""

    def __init__(self, seed: int = 0) -> None:
        self.builder: Builder = builder()
        self.inputs: list[np.ndarray] = []
        self.outputs: list[Tensor] = []
        self._random = np.random.default_rng(seed)

    def data(
        self,
        dtype: DType,
        shape: Sequence[int],
        quant: Quantization | None = QUANT,
        scale: float = 3.0,
    ) -> Tensor:
        """A graph input with random values over the whole range of its type."""
        values = self.values(dtype, shape, scale)
        return self.given(values, quant if not dtype.is_float else None)

    def values(self, dtype: DType, shape: Sequence[int], scale: float = 3.0) -> np.ndarray:
        """Random elements."""
        if dtype.is_float:
            return (self._random.standard_normal(shape) * scale).astype(dtype.numpy)
        return self._random.integers(*limits(dtype), shape, dtype.numpy, endpoint=True)

    def given(self, values: np.ndarray, quant: Quantization | None = None) -> Tensor:
        """A graph input with given values."""
        self.inputs.append(values)
        name = f"in{len(self.inputs)}"
        return self.builder.input(name, DType.of(values), values.shape, quant)

    def constant(self, values: npt.ArrayLike, quant: Quantization | None = None) -> Tensor:
        """A constant operand."""
        return self.builder.constant(f"constant{len(self.builder.graph.tensors)}", values, quant)

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        attrs: object = None,
        dtype: DType | None = None,
        quant: Quantization | None = None,
    ) -> Tensor:
        """An op whose result is compared."""
        name = f"{kind.lower()}{len(self.outputs)}"
        result = self.builder.op(kind, inputs, attrs, name=name, dtype=dtype, quant=quant)
        self.outputs.append(result)
        return result

    def graph(self) -> Graph:
        """All ops."""
        return self.builder.output(*self.outputs).build()

    def check(self, target: str, threads: int = 1, tolerance: float = 1e-5) -> None:
        """Compare all results with the records'; skips where this CPU cannot run the target."""
        chosen = runnable(target)
        if chosen is None:
            pytest.skip(f"this CPU cannot run {target}")
        check_native(self.graph(), self.inputs, chosen, threads, tolerance)
