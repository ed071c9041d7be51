"""MediaPipe's operators natively: what their records give."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph
from circlet.ops.mediapipe.pooling import ArgmaxPoolAttrs
from circlet.ops.mediapipe.transform import TransformTensorAttrs
from tests.ops.custom_op import network, outputs, session
from tests.ops.test_mediapipe import POOLS

F32 = DType.FLOAT32
PAIR = (F32, (2, 3, 4, 5)), (F32, (2, 3, 4, 5))
NETWORKS = {
    **{
        f"pool-{name}": network("MaxPoolingWithArgmax2D", attrs, [(F32, shape)])
        for name, (attrs, shape) in POOLS.items()
    },
    "unpool": network("MaxUnpooling2D", ArgmaxPoolAttrs("SAME", (2, 2), (2, 2)), PAIR),
    "unpool-over": network("MaxUnpooling2D", ArgmaxPoolAttrs("SAME", (1, 2), (3, 2)), PAIR),
    "transform": network(
        "TransformTensor", TransformTensorAttrs(6, 5), [(F32, (1, 4, 7, 3)), (F32, (1, 4, 4))]
    ),
    "transform-centred": network(
        "TransformTensorBilinear",
        TransformTensorAttrs(9, 8),
        [(F32, (1, 5, 5, 16)), (F32, (1, 4, 4))],
        2,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_native_code_gives_what_records_give(name: str) -> None:
    graph = NETWORKS[name]
    native = session(graph, backends=["cpu"], strict=True)
    records = session(graph)
    for seed in range(4):
        arrays = some(graph, seed)
        pairs = zip(outputs(native, *arrays), outputs(records, *arrays), strict=True)
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def some(graph: Graph, seed: int) -> list[np.ndarray]:
    """Images, and places in windows with some outside, or matrices that turn a little."""
    random = np.random.default_rng(seed)
    made = [random.normal(size=t.static_shape).astype(np.float32) for t in graph.inputs]
    if len(made) == 2 and made[1].shape == (1, 4, 4):
        made[1] = np.eye(4, dtype=np.float32)[None] + made[1] * np.float32(0.1)
    elif len(made) == 2:
        made[1] = random.integers(-1, 7, made[1].shape).astype(np.float32) + np.float32(0.1)
    return made
