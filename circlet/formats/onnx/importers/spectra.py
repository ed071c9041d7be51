"""Fourier transforms of known length: products with constant waves."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.attributes import stored_attributes
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import standard
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.onnx.signal import frames_transformed, transformed

_MOST_WAVES = 1 << 22  # elements of a table of waves


def _attrs(node: Node) -> OnnxAttrs:
    return OnnxAttrs(stored_attributes(node, node.graph.state.store), node.opset)


def _length(node: Node, index: int) -> int | None:
    """A length that an operand states; None where the operand is omitted."""
    given = node.known_ints(index)
    if given is None and node.optional(index) is not None:
        raise NotLoweredError("a length is computed")
    return None if given is None else given[0]


def _few(elements: int) -> None:
    if elements > _MOST_WAVES:
        raise NotLoweredError("the transform is long: a table of its waves would be large")


@importer("DFT")
def _dft(node: Node) -> Tensor:
    """A transform is linear: FULLY_CONNECTED with the transforms of all unit vectors."""
    x, rank = node[0], node.rank(node[0])
    axis = _length(node, 2) if node.opset >= 20 else node.whole("axis", 1)
    place = node.axis(-2 if axis is None else axis, rank)
    size, parts = x.shape[place], x.shape[rank - 1]
    if x.dtype is not DType.FLOAT32 or size is None or parts is None or place == rank - 1:
        raise NotLoweredError("only FLOAT32 along an axis of known size is transformed so")
    if node.whole("inverse") and not node.whole("onesided"):
        raise NotLoweredError("what goes back to zeros would leave more than zeros")
    length = _length(node, 1)
    _few((2 * size * parts) * max(size, length or 0))
    units = np.eye(size * parts, dtype=np.float64).reshape(-1, size, parts)
    waves = transformed(_attrs(node), units, length, 1)
    order = [at for at in range(rank - 1) if at != place] + [place, rank - 1]
    rows = node.transpose(x, order)
    lead = [-1 if n is None else n for n in rows.shape[:-2]]
    if lead.count(-1) > 1:
        raise NotLoweredError("sizes are open")
    table = node.const(waves.reshape(len(units), -1).T, np.float32)
    flat = node.reshape(rows, [*lead, size * parts])
    attrs = FullyConnectedAttrs(keep_num_dims=True)
    made = node.op("FULLY_CONNECTED", [flat, table, None], attrs)
    pairs = node.reshape(made, [*lead, *waves.shape[1:]])
    return node.transpose(pairs, [int(at) for at in np.argsort(order)])


@importer("STFT")
def _stft(node: Node) -> Tensor:
    """Frames are windows that slide: a convolution whose filters are waves."""
    x, step = node[0], node.known_ints(1)
    rank, window = node.rank(x), node.known(2)
    if window is None and node.optional(2) is not None:
        raise NotLoweredError("the window is computed")
    if x.dtype is not DType.FLOAT32 or step is None or (rank == 3 and x.shape[2] != 1):
        raise NotLoweredError("only real FLOAT32 signals, cut by a known step, are transformed so")
    stated = _length(node, 3)
    count = stated or (x.shape[1] if window is None else len(window))
    if not count or step[0] < 1:
        raise NotLoweredError("the length of frames is not known")
    _few(2 * count * count)
    units = np.eye(count, dtype=np.float64)[:, :, None]
    waves = frames_transformed(_attrs(node), units, np.array(step), window, np.array(count))
    bins = waves.shape[2]
    filters = waves.reshape(count, -1).T[:, None]
    signal = node.reshape(x, [-1 if x.shape[0] is None else x.shape[0], 1, _known(x.shape[1])])
    made = standard(node, "Conv", [signal, node.const(filters, np.float32)], strides=[step[0]])
    turned = node.transpose(made, [0, 2, 1])
    frames = [-1 if n is None else n for n in turned.shape[:2]]
    return node.reshape(turned, [*frames, bins, 2])


def _known(size: int | None) -> int:
    if size is None:
        raise NotLoweredError("the length of the signal is open")
    return size
