"""Networks that choose between branches for operands of different sizes."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType, Graph, Model
from circlet.ops.build import builder


def choice(*sizes: int) -> Model:
    """An IF over so many branches; each adds as many numbers to `x`, and takes as many alone."""
    b = builder()
    flag, x = b.input("flag", DType.BOOL, ()), b.input("x", DType.FLOAT32, (None,))
    made = b.op("IF", [flag, x], None, name="choice", dtype=DType.FLOAT32, shape=(None,))
    model = b.output(made).model()
    model.main.ops[-1].regions = [_branch(size) for size in sizes]
    model.graphs += model.main.ops[-1].regions
    return model


def _branch(size: int) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None,))
    numbers = b.constant("numbers", np.arange(size, dtype=np.float32))
    return b.output(b.op("ADD", [x, numbers], name=f"add {size}")).build()
