"""A small network with a hierarchy in its names, and its report."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from circlet.commands.report import Made, ReportRequest, make_report
from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from tests.windows import conv2d_attrs

CHANNELS = 4
SIDE = 8


def _conv(b: Builder, x: Tensor, name: str) -> Tensor:
    weights = b.constant(f"{name}/weights", np.ones((CHANNELS, 1, 1, CHANNELS), np.float32))
    bias = b.constant(f"{name}/bias", np.zeros(CHANNELS, np.float32))
    return b.op("CONV_2D", [x, weights, bias], conv2d_attrs("SAME", 1, 1), name=name)


def blocks(count: int = 2, start: str = "net") -> bytes:
    """Blocks of a 1x1 convolution and a RELU over 8x8x4 floats, then a SOFTMAX."""
    b = builder()
    y = b.input("x", DType.FLOAT32, (1, SIDE, SIDE, CHANNELS))
    for number in range(1, count + 1):
        y = _conv(b, y, f"{start}/block_{number}/conv")
        y = b.op("RELU", [y], name=f"{start}/block_{number}/relu")
    return dumps(b.output(b.op("SOFTMAX", [y], name=f"{start}/softmax")).model(), "tflite")


def reported(folder: Path, model: bytes, name: str = "model", runs: int | None = 1) -> Made:
    """What `circlet report` makes of a model."""
    path = folder / f"{name}.tflite"
    path.write_bytes(model)
    return make_report(ReportRequest((path,), folder / f"{name}.html", runs=runs))
