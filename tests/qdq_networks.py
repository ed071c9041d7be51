"""Float networks of ONNX operators, quantised by ONNX Runtime's own tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static


class Net:
    """A float network that is built node by node, from the input `x` on."""

    def __init__(self, *shape: int) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._random = np.random.default_rng(7)
        self.shape = shape

    def weights(self, *shape: int) -> str:
        """A random constant."""
        depth = max(1, int(np.prod(shape[1:])))
        return self.constant(self._random.standard_normal(shape) / np.sqrt(depth), np.float32)

    def constant(self, values: Any, dtype: Any) -> str:
        """A constant."""
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node's one result."""
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], name=f"n{name}", **attributes))
        return name

    def conv(self, x: str, channels: tuple[int, int], window: int = 3, group: int = 1) -> str:
        """A convolution with a bias."""
        before, after = channels
        pad = window // 2
        operands = self.weights(after, before // group, window, window), self.weights(after)
        return self.op("Conv", x, *operands, group=group, pads=[pad] * 4)

    def write(self, result: str, path: Path) -> None:
        """Write the network up to a result."""
        graph = helper.make_graph(
            self._nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
            self._constants,
        )
        sets = [helper.make_opsetid("", 17)]
        save_model(helper.make_model(graph, opset_imports=sets, ir_version=8), str(path))

    def inputs(self, seed: int) -> np.ndarray:
        """Random numbers of the input's sizes."""
        return np.random.default_rng(seed).standard_normal(self.shape).astype(np.float32)


def images(path: Path) -> Net:
    """Plain, depthwise and pointwise layers, a sum, poolings, a concatenation, a classifier."""
    net = Net(1, 3, 16, 16)
    x = net.op("Relu", net.conv("x", (3, 8)))
    y = net.op("Clip", net.conv(x, (8, 8), 3, 8), net.constant(0, "f4"), net.constant(6, "f4"))
    x = net.op("Add", net.conv(y, (8, 8), 1), x)
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Concat", x, net.op("Sigmoid", net.conv(x, (8, 8))), axis=1)
    x = net.op("Flatten", net.op("GlobalAveragePool", net.conv(x, (16, 12), 1)))
    net.write(net.op("Gemm", x, net.weights(10, 12), net.weights(10), transB=1), path)
    return net


def flattened(path: Path) -> Net:
    """A layer over all pixels of an image, whose weights are turned with it, and no bias."""
    net = Net(2, 4, 6, 6)
    x = net.op("LeakyRelu", net.op("Conv", "x", net.weights(6, 4, 3, 3)), alpha=0.125)
    x = net.op("Reshape", x, net.constant([2, -1], np.int64))
    net.write(net.op("MatMul", x, net.weights(96, 9)), path)
    return net


def words(path: Path) -> Net:
    """One layer of a transformer: attention, normalisations, GELU."""
    net = Net(1, 12, 32)
    sizes = net.constant([1, 12, 4, 8], np.int64)
    parts = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = net.op("Add", net.op("MatMul", "x", net.weights(32, 32)), net.weights(32))
        parts.append(net.op("Transpose", net.op("Reshape", y, sizes), perm=perm))
    scores = net.op("Mul", net.op("MatMul", *parts[:2]), net.constant(8**-0.5, "f4"))
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1), parts[2])
    y = net.op("Transpose", y, perm=[0, 2, 1, 3])
    y = net.op("Reshape", y, net.constant([1, 12, 32], np.int64))
    x = net.op("Add", net.op("MatMul", y, net.weights(32, 32)), "x")
    ones, zeros = (net.constant(np.full(32, v), "f4") for v in (1, 0))
    x = net.op("LayerNormalization", x, ones, zeros)
    y = net.op("Add", net.op("MatMul", x, net.weights(32, 64)), net.weights(64))
    half = net.op("Erf", net.op("Div", y, net.constant(2**0.5, "f4")))
    y = net.op("Mul", y, net.op("Add", half, net.constant(1, "f4")))
    y = net.op("Mul", y, net.constant(0.5, "f4"))
    x = net.op("Add", net.op("MatMul", y, net.weights(64, 32)), x)
    net.write(net.op("LayerNormalization", x, ones, zeros), path)
    return net


class _Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, net: Net) -> None:
        self._rows = iter([{"x": net.inputs(seed)} for seed in range(3)])

    def get_next(self) -> Any:
        """The next inputs."""
        return next(self._rows, None)


def quantised(net: Net, source: Path, path: Path, types: str, *, per_channel: bool) -> None:
    """Write a network with QuantizeLinear and DequantizeLinear around its operators.

    Args:
        types: A letter each for activations and weights, "i" for INT8 and "u" for UINT8.
        per_channel: Whether channels of weights have scales of their own.
    """
    activations, weights = ({"i": QuantType.QInt8, "u": QuantType.QUInt8}[c] for c in types)
    quantize_static(
        str(source),
        str(path),
        _Calibration(net),
        activation_type=activations,
        weight_type=weights,
        per_channel=per_channel,
    )
