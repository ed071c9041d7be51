"""Layers with weights, one of each kind and type, in one network of native code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from circlet.ir import DType, Quantization
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Cases
from tests.windows import conv2d_attrs, depthwise_attrs

F32, I8, U8, I16 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16
TYPES = [(F32, F32), (F32, I8), (I8, I8), (U8, U8), (I16, I8)]  # activations, weights
ZEROS = {F32: None, I8: -3, U8: 120, I16: 0}
LAYERS = {
    "CONV_2D": ((1, 5, 6, 3), (4, 3, 3, 3), conv2d_attrs("SAME", 1, 1)),
    "DEPTHWISE_CONV_2D": ((1, 5, 6, 4), (1, 3, 3, 4), depthwise_attrs("SAME", 1, 1)),
    "FULLY_CONNECTED": ((2, 12), (4, 12), FullyConnectedAttrs()),
}
pytestmark = pytest.mark.smoke


def scaled(dtype: DType, scale: float, zero: int | None) -> Quantization | None:
    return None if dtype is F32 else Quantization.per_tensor(scale, zero or 0)


def layers() -> Iterator[tuple[str, DType, DType]]:
    return ((kind, data, weights) for kind in LAYERS for data, weights in TYPES)


def test_layers_of_every_type_equal_their_records() -> None:
    cases = Cases()
    for kind, data, stored in layers():
        shape, window, attrs = LAYERS[kind]
        image = cases.data(data, shape, scaled(data, 0.02, ZEROS[data]))
        filters = cases.values(stored, window, 0.5)
        zero = 131 if stored is U8 else 0
        weights = cases.constant(filters, scaled(stored, 0.01, zero))
        wide = np.int64 if data is I16 else np.int32
        bias = cases.constant(np.arange(4, dtype=np.float32 if data is F32 else wide))
        result = scaled(data, 0.1, ZEROS[data])
        cases.op(kind, [image, weights, bias], attrs, quant=result)
    cases.check("native", threads=2)
