"""Stacks of slices that loops make, whose sizes the first slice decides."""

from __future__ import annotations

import numpy as np

from circlet.ir import Op
from circlet.ops.onnx.record import OnnxAttrs, onnx_kind
from circlet.ops.opdef import TensorType


def _appended(attrs: OnnxAttrs, rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, row[None]]) if len(rows) else row[None].copy()


def _more_rows(op: Op) -> list[TensorType]:
    row = op.inputs[1]
    assert row is not None
    return [TensorType(row.dtype, (None, *row.shape))]


# Of no operator set: what the importer of loops makes where slices have open sizes.
onnx_kind("Append", _appended, inputs=(2, 2), infer=_more_rows)
