"""Weights of a few bits, each block with a scale of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import floats, joined, resized, scaled, standard, widened
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ir.packed import unpacked
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.onnx.nbits import elements

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

_BITS, _BLOCK = (2, 4, 8), 32
_ROWS_AT_ONCE = 1 << 10


def _stored(node: Node, index: int, what: str) -> np.ndarray:
    """The elements of a constant operand, those of FLOAT16 as FLOAT32."""
    tensor = node[index]
    makers = [op for op in node.ops if tensor in op.outputs]
    if tensor.data is None and makers and makers[0].kind == "DEQUANTIZE":
        source = makers[0].inputs[0]
        if source is not None and source.data is not None:
            return source.data.astype(np.float32)
    if tensor.data is None:
        raise NotLoweredError(f"{what} are computed in a run")
    return unpacked(tensor) if tensor.dtype.is_small else tensor.data


def _sized(node: Node, values: np.ndarray, sizes: Sequence[int], what: str) -> np.ndarray:
    if values.size != int(np.prod(sizes)):
        raise node.wrong(f"the {what} are not of the sizes that N, K and the blocks give")
    return values.reshape(sizes)


@importer("MatMulNBits", domain=MICROSOFT)
def _mat_mul_bits(node: Node) -> Tensor:
    """The record of such products where it says all, else a layer over the real weights."""
    x, bits = floats(node), node.whole("bits", 4)
    if bits not in _BITS or node.whole("weight_prepacked"):
        raise NotLoweredError(f"weights of {bits} bits, or packed for a device, are not read")
    rows, depth, block = (node.whole(name) for name in ("N", "K", "block_size"))
    if min(rows, depth, block) < 1 or block % 16:
        raise node.wrong("N, K or block_size is no size", f"{rows}, {depth}, {block}")
    if _has_record(node, bits, block):
        return node.graph.own_record(node)[0]
    weights = _real_weights(node, rows, depth, block, bits)
    attrs = FullyConnectedAttrs(keep_num_dims=True)
    return node.op("FULLY_CONNECTED", [x, node.const(weights), node.optional(5)], attrs)


def _has_record(node: Node, bits: int, block: int) -> bool:
    """Whether weights may stay as they are stored."""
    types = {1: DType.UINT8, 2: DType.FLOAT32, 3: DType.UINT8, 5: DType.FLOAT32}
    given = {at: node.optional(at) for at in types}
    stored = all(
        t is None or (t.data is not None and t.dtype is types[at]) for at, t in given.items()
    )
    return stored and node.optional(4) is None and bits in (4, 8) and block % _BLOCK == 0


def _real_weights(node: Node, rows: int, depth: int, block: int, bits: int) -> Floats:
    """[rows, depth]: what is stored less the zero point of its block, times its scale."""
    blocks = -(-depth // block)
    each = block * bits // 8
    stored = _sized(node, _stored(node, 1, "weights"), (rows, blocks * each), "weights")
    scales = _sized(node, _stored(node, 2, "scales"), (rows, blocks), "scales")
    zeros = _zeros(node, rows, blocks, bits)
    group = _groups(node, depth, block, blocks)
    made = np.empty((rows, depth), np.float32)
    for first in range(0, rows, _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        made[part] = elements(stored[part].view(np.uint8), bits, depth)
        made[part] -= zeros[part][:, group]
        made[part] *= scales[part].astype(np.float32)[:, group]
    return made


def _zeros(node: Node, rows: int, blocks: int, bits: int) -> Floats:
    """The zero points of all blocks, of bits packed as the weights are, or of real numbers."""
    if node.optional(3) is None:
        return np.full((rows, blocks), 1 << (bits - 1), np.float32)
    given = _stored(node, 3, "zero points")
    if given.dtype != np.uint8:
        return _sized(node, given, (rows, blocks), "zero points").astype(np.float32)
    packed = _sized(node, given, (rows, -(-blocks * bits // 8)), "zero points")
    return elements(packed, bits, blocks).astype(np.float32)


def _groups(node: Node, depth: int, block: int, blocks: int) -> npt.NDArray[np.int64]:
    """The block whose scale each input has."""
    own = np.arange(depth) // block
    if node.optional(4) is None:
        return own
    given = _stored(node, 4, "groups").reshape(-1)[:depth].astype(np.int64)
    if len(given) != depth or given.min() < 0 or given.max() >= blocks:
        raise node.wrong("g_idx does not name a block for each input")
    return given


@importer("GatherBlockQuantized", domain=MICROSOFT)
def _gather_blocks(node: Node) -> Tensor:
    """Rows of stored bytes are gathered, then unpacked and scaled; other axes of real values."""
    bits = 4 if node[0].dtype.is_small else node.whole("bits", 4)
    block = node.whole("block_size", 128)
    if bits not in _BITS or node[0].dtype not in (DType.UINT8, DType.UINT4, DType.INT4):
        raise NotLoweredError("the data are of a type that is not read")
    if node[2].dtype is not DType.FLOAT32 or block < 16:
        raise NotLoweredError("scales are not FLOAT32, or there is no size of blocks")
    sizes = _sizes(node, bits)
    rank = len(sizes)
    axis, along = (
        node.axis(node.whole(*given), rank) for given in (("gather_axis", 0), ("quantize_axis", 1))
    )
    scales = _scales(node, sizes, along, block)
    zeros = _row_zeros(node, scales.shape, bits)
    if axis == 0 and along == rank - 1 == 1 and bits > 2 and sizes[1] % (8 // bits) == 0:
        return _gathered_rows(node, (scales, zeros), sizes[1], block, bits)
    values = _values(node, bits).reshape(sizes).astype(np.float32)
    spread = [np.repeat(x, block, along).take(range(sizes[along]), along) for x in (zeros, scales)]
    real = node.const(((values - spread[0]) * spread[1]).astype(np.float32))
    return standard(node, "Gather", [real, node[1]], axis=axis)


def _sizes(node: Node, bits: int) -> list[int]:
    sizes = [size or 0 for size in node[0].shape]
    if not sizes or min(sizes) < 1:
        raise NotLoweredError("the sizes of the data are open")
    if node[0].dtype is DType.UINT8:
        sizes[-1] *= 8 // bits
    return sizes


def _values(node: Node, bits: int) -> np.ndarray:
    """The stored numbers, one of INT4 with its sign."""
    stored = _stored(node, 0, "data")
    if node[0].dtype is not DType.UINT8:
        return stored.astype(np.int8)
    return elements(stored.reshape(-1, stored.shape[-1]), bits, stored.shape[-1] * 8 // bits)


def _scales(node: Node, sizes: Sequence[int], along: int, block: int) -> Floats:
    wanted = [-(-n // block) if axis == along else n for axis, n in enumerate(sizes)]
    found = _stored(node, 2, "scales")
    if list(found.shape) != wanted:
        raise node.wrong("the scales do not fit the data", f"{list(found.shape)}, not {wanted}")
    return found


def _row_zeros(node: Node, shape: Sequence[int], bits: int) -> Floats:
    if node.optional(3) is None:
        middle = 1 << (bits - 1) if node[0].dtype is DType.UINT8 else 0
        return np.full(shape, middle, np.float32)
    given = _stored(node, 3, "zero points")
    if node[0].dtype is DType.UINT8:
        given = elements(given.reshape(-1, given.shape[-1]), bits, shape[-1])
    return _sized(node, given.astype(np.float32), shape, "zero points")


def _gathered_rows(
    node: Node, blocks: tuple[Floats, Floats], depth: int, block: int, bits: int
) -> Tensor:
    """Rows of a table [rows, depth], of which bytes are stored; blocks end where rows end."""
    rank, count = node.rank(node[1]), -(-depth // block)
    rows = [standard(node, "Gather", [t, node[1]], axis=0) for t in _tables(node, blocks, bits)]
    values = node.cast(rows[0], DType.FLOAT32)
    if bits == 4:
        high = node.op("FLOOR", [scaled(node, values, 1 / 16)])
        low = node.op("SUB", [values, scaled(node, high, 16)])
        both = joined(node, [widened(node, low, -1), widened(node, high, -1)], -1)
        values = resized(node, both, [0] * rank + [depth])
    missing = count * block - depth
    if missing:
        amounts = [0] * (2 * rank + 1) + [missing]
        values = standard(node, "Pad", [values, node.const(amounts, np.int64)])
    parts = resized(node, values, [0] * rank + [count, block])
    scales, zeros = (widened(node, x, -1) for x in rows[1:])
    real = node.op("MUL", [node.op("SUB", [parts, zeros]), scales])
    whole = resized(node, real, [0] * rank + [count * block])
    if not missing:
        return whole
    lists = [node.const([n], np.int64) for n in (0, depth, rank)]
    return standard(node, "Slice", [whole, *lists])


def _tables(node: Node, blocks: tuple[Floats, Floats], bits: int) -> list[Tensor]:
    """Stored bytes, without signs, with the scales and the zero points that belong to them."""
    data, (scales, zeros) = node[0], blocks
    if data.data is None:
        raise NotLoweredError("data are computed in a run")
    stored = data.data
    if data.dtype is not DType.UINT8:
        stored = np.asarray(stored, np.uint8).reshape(len(scales), -1)
    if data.dtype is DType.INT4:
        stored, zeros = stored ^ np.uint8(0x88), zeros + np.float32(8)
    table = data if stored is data.data else node.const(stored)
    return [table, node.const(scales), node.const(zeros)]
