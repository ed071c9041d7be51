"""An 8-bit kind that only a table computes, over a constant that no caller gives."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import Quantization
from circlet.ops.build import builder

CODE = ""
RUNS = True


def make() -> bytes:
    b = builder()
    quant = Quantization.per_tensor(0.05)
    constant = b.constant("constant", np.array(3, np.int8), quant)
    return dumps(b.output(b.op("HARD_SWISH", [constant], name="y", quant=quant)).model(), "tflite")
