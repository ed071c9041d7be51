"""Native casts between all types that expressions load and store."""

from __future__ import annotations

import numpy as np

from circlet.backends.base import CompileJob
from circlet.backends.cpu.lower.printer import EXPRESSION_TYPES
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.ir import DType
from circlet.ops.quantize import CastAttrs
from circlet.options import Options
from circlet.placement.interface import Reason
from circlet.target.targets import parse_targets
from tests.backends.cpu.cases import Cases, each_target

WITHOUT_VECTORS = {(DType.FLOAT32, DType.INT64), (DType.INT64, DType.FLOAT32)}


def _cases() -> Cases:
    cases = Cases()
    for source in EXPRESSION_TYPES:
        values = cases.values(source, (3, 37), 90.0) if source is not DType.BOOL else _flags()
        data = cases.given(values)
        for result in EXPRESSION_TYPES:
            if (source, result) not in WITHOUT_VECTORS:
                attrs = CastAttrs(source.value, result.value)
                cases.op("CAST", [data], attrs, dtype=result)
    return cases


def _flags() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 2, (3, 37)).astype(bool)


@each_target
def test_casts_equal_the_record(target: str) -> None:
    _cases().check(target)


def test_only_floats_and_64_bit_integers_are_left_to_numpy() -> None:
    cases, backend = Cases(), CpuCompiler(CompileJob(Options(), parse_targets("native")))
    for source, result in WITHOUT_VECTORS:
        data = cases.data(source, (4,), None)
        cases.op("CAST", [data], CastAttrs(source.value, result.value), dtype=result)
    assert all(isinstance(backend.supports(op), Reason) for op in cases.graph().ops)
