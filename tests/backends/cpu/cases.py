"""Many small ops or networks in one graph: a table of cases costs one compilation per target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from circlet.ir import DType, Graph, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.operands import limits
from tests.backends.cpu.harness import (
    AND_V3,
    TARGETS,
    check_native,
    check_results,
    run_native,
    runnable,
)

QUANT = Quantization.per_tensor(0.05, 3)

each_target = pytest.mark.parametrize("target", TARGETS)
each_width = pytest.mark.parametrize("target", AND_V3)


def each_width_of(
    arguments: str,
    cases: Iterable[object],
    at_256_bits: Collection[object],
    slow_targets: Sequence[str] = ("generic",),
) -> pytest.MarkDecorator:
    """`each_width` for some cases of a table, `each_target` for the others.

    Cases that are tuples have an argument for each element.
    """

    def marks(case: object, target: str) -> list[pytest.MarkDecorator]:
        is_quick = target == "native" or (target == "x86_64+v3" and case in at_256_bits)
        return [] if is_quick else [pytest.mark.slow]

    return pytest.mark.parametrize(
        f"{arguments}, target",
        [
            pytest.param(*values, target, marks=marks(case, target), id=_name(*values, target))
            for case in cases
            for values in [case if isinstance(case, tuple) else (case,)]
            for target in ("native", "x86_64+v3", *slow_targets)
        ],
    )


def _name(*values: object) -> str:
    return "-".join(map(str, values))


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
        inputs: Sequence[Tensor | None],
        attrs: object = None,
        dtype: DType | None = None,
        quant: Quantization | None = None,
        custom_code: str = "",
    ) -> Tensor:
        """An op whose result is compared."""
        name = f"{kind.lower()}{len(self.outputs)}"
        result = self.builder.op(
            kind, inputs, attrs, name=name, dtype=dtype, quant=quant, custom_code=custom_code
        )
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


Network = tuple[Graph, Sequence[np.ndarray]]
Case = TypeVar("Case", bound=Hashable)


class SideBySide(Generic[Case]):
    """Networks that are compiled as one for each target and checked one by one.

    Those that stand `apart`, because other runs of the tests try them, are compiled as another one.
    """

    def __init__(
        self,
        cases: Iterable[Case],
        make: Callable[[Case], Network],
        *,
        apart: Collection[Case] = (),
        threads: int = 1,
        precision: str = "f32",
    ) -> None:
        self._cases, self._make, self._apart = list(cases), make, apart
        self._threads, self._precision = threads, precision
        self._results: dict[tuple[str, bool], dict[Case, list[np.ndarray]]] = {}

    def outputs(self, case: Case, target: str) -> list[np.ndarray]:
        """What native code gives for a case; skips where this CPU cannot run the target."""
        if runnable(target) is None:
            pytest.skip(f"this CPU cannot run {target}")
        group = target, case in self._apart
        if group not in self._results:
            self._results[group] = self._run(*group)
        return self._results[group][case]

    def check(self, case: Case, target: str, tolerance: float = 1e-5) -> None:
        """Compare a case's results with the records'."""
        graph, inputs = self._make(case)
        check_results(graph, inputs, self.outputs(case, target), tolerance)

    def _run(self, target: str, is_apart: bool) -> dict[Case, list[np.ndarray]]:
        cases = [case for case in self._cases if (case in self._apart) == is_apart]
        whole, given = Graph("side by side"), list[np.ndarray]()
        counts = []
        for graph, inputs in map(self._make, cases):
            for part in ("inputs", "outputs", "ops", "tensors"):
                getattr(whole, part).extend(getattr(graph, part))
            given.extend(inputs)
            counts.append(len(graph.outputs))
        results = iter(run_native(whole, given, target, self._threads, self._precision))
        return {
            case: [next(results) for _ in range(count)]
            for case, count in zip(cases, counts, strict=True)
        }
