"""MediaPipe's custom operators, against what their definitions say pixel by pixel."""

from __future__ import annotations

from math import floor
from struct import pack

import numpy as np
import pytest

from circlet import Session
from circlet.errors import FormatError, GraphError
from circlet.formats import dumps
from circlet.formats.flexbuffer_writer import flexbuffer_map
from circlet.formats.options import decode_custom
from circlet.ir import DType, Graph, Model
from circlet.ops.mediapipe.landmarks import LandmarksMatrixAttrs, TransformLandmarksAttrs
from circlet.ops.mediapipe.pooling import ArgmaxPoolAttrs
from circlet.ops.mediapipe.transform import TransformTensorAttrs
from circlet.ops.mediapipe.transpose_conv_bias import TransposeConvBiasAttrs
from circlet.ops.verify import verify
from tests.ops.custom_op import network, outputs, session

F32 = DType.FLOAT32
RANDOM = np.random.default_rng(0)
IDENTITY = np.eye(4, dtype=np.float32)[None]


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def transposed(
    attrs: TransposeConvBiasAttrs, data: tuple[int, ...], weights: tuple[int, ...]
) -> Graph:
    constants = floats(*weights), floats(weights[0])
    return network("Convolution2DTransposeBias", attrs, [(F32, data), *constants])


def transposed_by_definition(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Every pixel adds its scaled window to the result; what sticks out is cut off."""
    (op,) = graph.ops
    attrs = op.attributes(TransposeConvBiasAttrs)
    weights, bias = (tensor.data for tensor in op.inputs[1:] if tensor is not None)
    assert weights is not None
    assert bias is not None
    taps, cut = weights.shape[1:3], [0, 0]
    if attrs.padding == "SAME":
        pairs = zip(taps, x.shape[1:3], attrs.strides, strict=True)
        cut = [max(0, k - (size - 1) % s - 1) for k, size, s in pairs]
    whole = [(x.shape[i + 1] - 1) * attrs.strides[i] + taps[i] for i in range(2)]
    made = np.zeros((len(x), *whole, len(bias)))
    for row, column in np.ndindex(x.shape[1:3]):
        y, z = row * attrs.strides[0], column * attrs.strides[1]
        window = np.einsum("bc,fhwc->bhwf", x[:, row, column], weights)
        made[:, y : y + taps[0], z : z + taps[1]] += window
    y, z = cut[0] // 2, cut[1] // 2
    return np.asarray(made[:, y : y + whole[0] - cut[0], z : z + whole[1] - cut[1]] + bias)


TRANSPOSED = {
    "selfie": (TransposeConvBiasAttrs("SAME", (2, 2)), (1, 5, 6, 8), (3, 2, 2, 8)),
    "larger-window": (TransposeConvBiasAttrs("SAME", (2, 3)), (1, 4, 5, 3), (2, 4, 5, 3)),
    "window-smaller-than-step": (
        TransposeConvBiasAttrs("SAME", (3, 3)),
        (1, 3, 4, 2),
        (4, 2, 2, 2),
    ),
    "valid": (TransposeConvBiasAttrs("VALID", (2, 1)), (2, 3, 4, 5), (6, 3, 3, 5)),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions_keep_to_their_definition(name: str) -> None:
    graph = transposed(*TRANSPOSED[name])
    x = floats(*graph.inputs[0].static_shape)
    wanted = transposed_by_definition(graph, x)
    (found,) = outputs(session(graph), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_with_bias_runs_natively() -> None:
    graph = transposed(*TRANSPOSED["selfie"])
    x = floats(*graph.inputs[0].static_shape)
    opened = Session(dumps(Model([graph]), "tflite"), backends=["cpu"], strict=True)
    np.testing.assert_allclose(
        outputs(opened, x)[0], transposed_by_definition(graph, x), rtol=1e-4, atol=1e-5
    )


POOLS = {
    "halves": (ArgmaxPoolAttrs("SAME", (2, 2), (2, 2)), (1, 6, 8, 3)),
    "borders": (ArgmaxPoolAttrs("SAME", (2, 3), (3, 5), "RELU"), (2, 5, 7, 2)),
    "valid": (ArgmaxPoolAttrs("VALID", (1, 2), (3, 2)), (1, 5, 6, 4)),
}


def pooled_by_definition(
    attrs: ArgmaxPoolAttrs, x: np.ndarray, counts: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    made = (
        np.zeros((len(x), *counts, x.shape[3]), np.float32),
        np.zeros((len(x), *counts, x.shape[3])),
    )
    reach = [(counts[i] - 1) * attrs.strides[i] + attrs.kernel_shape[i] for i in range(2)]
    before = [max(0, (reach[i] - x.shape[i + 1]) // 2) for i in range(2)]
    for b, r, c, d in np.ndindex(made[0].shape):
        taps = {}
        for i, j in np.ndindex(attrs.kernel_shape):
            y, z = r * attrs.strides[0] - before[0] + i, c * attrs.strides[1] - before[1] + j
            if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                taps[i * attrs.kernel_shape[1] + j] = x[b, y, z, d]
        place = max(taps, key=lambda key: taps[key])
        made[0][b, r, c, d], made[1][b, r, c, d] = taps[place], place
    return made


@pytest.mark.parametrize("name", POOLS)
def test_pooling_says_where_the_largest_elements_were(name: str) -> None:
    attrs, shape = POOLS[name]
    graph = network("MaxPoolingWithArgmax2D", attrs, [(F32, shape)])
    x = floats(*shape)
    largest, places = outputs(session(graph), x)
    wanted = pooled_by_definition(attrs, x, largest.shape[1:3])
    clamped = np.maximum(wanted[0], 0) if attrs.activation == "RELU" else wanted[0]
    np.testing.assert_array_equal(largest, clamped)
    np.testing.assert_array_equal(places, wanted[1].astype(np.float32) + np.float32(0.1))


def test_unpooling_puts_elements_back() -> None:
    attrs = POOLS["halves"][0]
    x = np.abs(floats(1, 4, 6, 2))
    largest, places = outputs(
        session(network("MaxPoolingWithArgmax2D", attrs, [(F32, x.shape)])), x
    )
    shapes = [(F32, largest.shape), (F32, places.shape)]
    opened = session(network("MaxUnpooling2D", attrs, shapes))
    (found,) = outputs(opened, largest, places)
    windows = x.reshape(1, 2, 2, 3, 2, 2)
    np.testing.assert_array_equal(found, np.where(x == largest.repeat(2, 1).repeat(2, 2), x, 0))
    assert (windows.max(axis=(2, 4)) == largest).all()
    for nowhere in (places + 90, places - 90, places * np.nan):
        assert not outputs(opened, largest, nowhere)[0].any()


def seen_by_definition(
    image: np.ndarray, rows: np.ndarray, centred: bool, sizes: tuple[int, int]
) -> np.ndarray:
    made = np.zeros((*sizes, image.shape[2]))
    shift = 0.5 if centred else 0.0
    padded = np.pad(image, ((0, 1), (0, 1), (0, 0)))
    for row, column in np.ndindex(sizes):
        x, y = (
            line[0] * (column + shift) + line[1] * (row + shift) + line[3] - shift for line in rows
        )
        if 0 <= x <= image.shape[1] - 1 and 0 <= y <= image.shape[0] - 1:
            i, j = floor(y), floor(x)
            upper = (1 - x + j) * padded[i, j] + (x - j) * padded[i, j + 1]
            lower = (1 - x + j) * padded[i + 1, j] + (x - j) * padded[i + 1, j + 1]
            made[row, column] = (1 - y + i) * upper + (y - i) * lower
    return made


@pytest.mark.parametrize(
    ("code", "version"), [("TransformTensor", 1), ("TransformTensorBilinear", 2)]
)
def test_images_are_seen_through_a_matrix(code: str, version: int) -> None:
    graph = network(
        code, TransformTensorAttrs(5, 7), [(F32, (1, 6, 9, 3)), (F32, (1, 4, 4))], version
    )
    image, matrix = floats(1, 6, 9, 3), np.eye(4, dtype=np.float32)[None]
    matrix[0, :2] = [[1.1, 0.2, 9, 0.3], [-0.2, 0.9, 9, 1.7]]
    (found,) = outputs(session(graph), image, matrix)
    wanted = seen_by_definition(image[0], matrix[0, :2], version == 2, (5, 7))
    assert (wanted == 0).all(axis=2).any()
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)


def test_landmarks_go_through_a_matrix() -> None:
    matrix = np.eye(4, dtype=np.float32)[None]
    matrix[0, :2] = [[2, 0, 9, 1], [0, 3, 9, -1]]
    points = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    newer = network("TransformLandmarks", TransformLandmarksAttrs(), [(F32, (1, 2, 3)), matrix], 2)
    (found,) = outputs(session(newer), points[None])
    assert found.tolist() == [[[3, 5, 3], [9, 14, 6]]]
    attrs = TransformLandmarksAttrs(dimensions=3, scale=10.0)
    older = network("TransformLandmarks", attrs, [(F32, (1, 1, 1, 6)), matrix])
    (found,) = outputs(session(older), points.reshape(1, 1, 1, 6))
    assert found.ravel().tolist() == [12, -4, 3, 18, 5, 6]


def test_a_region_of_landmarks_becomes_a_matrix() -> None:
    """A level square of 2 around (5, 7), made twice as large, seen in 10 by 10 pixels."""
    attrs = LandmarksMatrixAttrs(
        0, 1, subset_idxs=(0, 1, 2), output_height=10, output_width=10, scale_x=2.0, scale_y=2.0
    )
    points = np.array([[4, 6, 0], [6, 6, 0], [6, 8, 0]], np.float32)
    graph = network("Landmarks2TransformMatrix", attrs, [(F32, (1, 3, 3))], 2)
    (found,) = outputs(session(graph), points[None])
    wanted = np.array([[0.4, 0, 0, 3], [0, 0.4, 0, 5], [0, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)
    turned = points[:, [1, 0, 2]] * [-1, 1, 1]  # a quarter of a turn about the origin
    (found,) = outputs(session(graph), turned[None].astype(np.float32))
    quarter = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(found[0], quarter @ wanted, atol=1e-5)


def test_a_crop_of_landmarks_becomes_a_matrix() -> None:
    """The whole range of landmarks, level, maps corners of the output to corners of the input."""
    attrs = LandmarksMatrixAttrs(
        0, 1, (0, 1, 2), 3, 100, 1.0, input_hw=(51, 101), output_hw=(11, 21)
    )
    points = np.array([[0, 0, 0], [100, 0, 0], [100, 100, 0]], np.float32)
    graph = network("Landmarks2TransformMatrix", attrs, [(F32, (1, 1, 1, 9))])
    (found,) = outputs(session(graph), points.reshape(1, 1, 1, 9))
    corner = found[0] @ [20, 10, 0, 1]
    np.testing.assert_allclose(corner, [100, 50, 0, 1], atol=1e-4)
    np.testing.assert_allclose(found[0] @ [0, 0, 0, 1], [0, 0, 0, 1], atol=1e-4)


LANDMARKS = {
    "points": network(
        "TransformLandmarks", TransformLandmarksAttrs(), [(F32, (1, 5, 3)), (F32, (1, 4, 4))], 2
    ),
    "flat-points": network(
        "TransformLandmarks", TransformLandmarksAttrs(2, 8.0), [(F32, (1, 1, 1, 6)), IDENTITY + 1]
    ),
    "region": network(
        "Landmarks2TransformMatrix",
        LandmarksMatrixAttrs(
            1,
            4,
            subset_idxs=(0, 2, 3),
            target_rotation_radians=0.3,
            output_height=16,
            output_width=24,
            scale_x=1.5,
            scale_y=1.25,
        ),
        [(F32, (1, 5, 3))],
        2,
    ),
    "crop": network(
        "Landmarks2TransformMatrix",
        LandmarksMatrixAttrs(2, 0, (0, 1, 3), 3, 192, 2.5, input_hw=(24, 48), output_hw=(8, 6)),
        [(F32, (1, 1, 1, 15))],
    ),
}


@pytest.mark.parametrize("name", LANDMARKS)
def test_landmarks_run_natively(name: str) -> None:
    graph = LANDMARKS[name]
    random = np.random.default_rng(3)
    given = [random.normal(20, 9, t.static_shape).astype(np.float32) for t in graph.inputs]
    wanted = outputs(session(graph), *given)[0]
    opened = Session(dumps(Model([graph]), "tflite"), backends=["cpu"], strict=True)
    np.testing.assert_allclose(outputs(opened, *given)[0], wanted, rtol=1e-4, atol=1e-4)


BROKEN = {
    "equal depth": transposed(TransposeConvBiasAttrs(), (1, 2, 2, 3), (1, 2, 2, 4)),
    "strides must have": transposed(
        TransposeConvBiasAttrs(strides=(1, 70000)), (1, 2, 2, 3), (1, 2, 2, 3)
    ),
    "smaller than a window": network(
        "MaxPoolingWithArgmax2D", ArgmaxPoolAttrs("VALID", (1, 1), (4, 1)), [(F32, (1, 3, 3, 1))]
    ),
    "more than 256": network(
        "MaxPoolingWithArgmax2D", ArgmaxPoolAttrs("SAME", (1, 1), (32, 9)), [(F32, (1, 3, 3, 1))]
    ),
    "needs an index": network(
        "MaxUnpooling2D", ArgmaxPoolAttrs(), [(F32, (1, 3, 3, 1)), (F32, (1, 3, 2, 1))]
    ),
    "first is 1": network(
        "TransformTensor", TransformTensorAttrs(1, 1), [(F32, (2, 3, 3, 1)), IDENTITY]
    ),
    "4 rows and 4 columns": network(
        "TransformTensor", TransformTensorAttrs(1, 1), [(F32, (1, 3, 3, 1)), IDENTITY[:, :3]]
    ),
    "whole points": network(
        "TransformLandmarks", TransformLandmarksAttrs(), [(F32, (1, 1, 1, 5)), IDENTITY]
    ),
    "do not exist": network(
        "Landmarks2TransformMatrix",
        LandmarksMatrixAttrs(0, 3, subset_idxs=(0,)),
        [(F32, (1, 3, 3))],
        2,
    ),
    "must be positive": network(
        "Landmarks2TransformMatrix",
        LandmarksMatrixAttrs(0, 1, subset_idxs=(0,), output_height=0),
        [(F32, (1, 3, 3))],
        2,
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_does_not_fit_breaks_a_rule(message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(BROKEN[message])


def test_options_are_structures_and_maps() -> None:
    decode = {code: decode_custom(code) for code in ("MaxUnpooling2D", "TransformTensor")}
    pool, transform = decode["MaxUnpooling2D"], decode["TransformTensor"]
    assert pool is not None
    assert transform is not None
    assert pool(pack("<10i", 2, 3, 4, 5, 6, 1, 0, 0, 0, 0)) == ArgmaxPoolAttrs(
        "VALID", (4, 3), (6, 5), "RELU"
    )
    stored = flexbuffer_map({"mode": "bilinear", "output_size": [3, 4]})
    assert transform(stored) == TransformTensorAttrs(3, 4)
    for read, data in (
        (pool, pack("<5i", 1, 1, 1, 1, 1)),
        (pool, pack("<6i", 0, 1, 1, 1, 1, 0)),
        (transform, flexbuffer_map({"mode": "nearest", "output_size": [3, 4]})),
        (transform, flexbuffer_map({"output_size": [3]})),
    ):
        with pytest.raises(FormatError):
            read(data)
