"""Elements by their places and keys, and tensors made of sizes and ranges."""

from __future__ import annotations

import numpy as np

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.operations.movement import as_list, as_scalar
from circlet.formats.nnapi.operations.own import own
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.lsh_projection import LshProjectionAttrs
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.order import OneHotAttrs
from circlet.ops.quantize import CastAttrs

_EINSUM_SINCE = 12  # ONNX's operator set
_SPARSE_WITHOUT_OFFSETS, _DENSE, _SPARSE = 1, 2, 3


@lowers("GATHER", "GATHER_EX")
def _gather(call: Call) -> None:
    call.result("GATHER", [call[0], call[2]], GatherAttrs(call.whole(1)))


@lowers("EMBEDDING_LOOKUP")
def _embedding_lookup(call: Call) -> None:
    call.result("GATHER", [call[1], call[0]], GatherAttrs(0))


@lowers("HASHTABLE_LOOKUP")
def _hashtable_lookup(call: Call) -> None:
    inputs = [call[0], call[1], call[2]]
    call.many("HASHTABLE_LOOKUP", inputs, [call.output(0), call.output(1)])


@lowers("LSH_PROJECTION")
def _lsh_projection(call: Call) -> None:
    """The older sparse form does not tell the hash functions apart."""
    form = call.whole(3)
    if form not in (_SPARSE_WITHOUT_OFFSETS, _DENSE, _SPARSE):
        raise call.wrong("a form of projection is unknown", f"type {form}")
    attrs = LshProjectionAttrs("DENSE" if form == _DENSE else "SPARSE")
    inputs = [call[0], _as_given(call, 1), *([call[2]] if call.optional(2) else [])]
    if form != _SPARSE_WITHOUT_OFFSETS:
        call.result("LSH_PROJECTION", inputs, attrs)
        return
    functions, bits = call[0].static_shape
    offsets = call.const(np.arange(functions) << bits, "i4")
    call.result("SUB", [call.op("LSH_PROJECTION", inputs, attrs, dtype=offsets.dtype), offsets])


def _as_given(call: Call, index: int) -> Tensor:
    """An input whose bytes count, in the type that callers give."""
    tensor = call[index]
    if call.code(index).dtype is not DType.FLOAT16:
        return tensor
    return call.op("CAST", [tensor], CastAttrs("FLOAT32", "FLOAT16"), DType.FLOAT16)


@lowers("ONE_HOT_EX")
def _one_hot(call: Call) -> None:
    inputs = [call[0], as_list(call, call[1]), as_list(call, call[2]), as_list(call, call[3])]
    call.result("ONE_HOT", inputs, OneHotAttrs(call.whole(4) if call.optional(4) else -1))


@lowers("FILL", "FILL_EX")
def _fill(call: Call) -> None:
    call.result("FILL", [as_list(call, call[0]), as_scalar(call, call[1])])


@lowers("RANGE_EX")
def _range(call: Call) -> None:
    call.result("RANGE", [as_scalar(call, call[index]) for index in range(3)])


@lowers("SHAPE_EX")
def _shape(call: Call) -> None:
    call.result("SHAPE", [call[0]], out_type=call.output().dtype.name)


@lowers("RANK")
def _rank(call: Call) -> None:
    call.result("RANK", [call[0]])


@lowers("BATCH_MATMUL", "BATCH_MATMUL_EX")
def _batch_matmul(call: Call) -> None:
    left, right = call.flag(2), call.flag(3)
    if call[0].dtype is not DType.INT32:
        call.result("BATCH_MATMUL", [call[0], call[1]], adj_x=left, adj_y=right)
        return
    first, second = "ki" if left else "ik", "jk" if right else "kj"
    _sum_of_products(call, [call[0], call[1]], f"...{first},...{second}->...ij")


def _sum_of_products(call: Call, inputs: list[Tensor], equation: str) -> None:
    attrs = OnnxAttrs((("equation", equation),), _EINSUM_SINCE)
    call.result("CUSTOM:onnx.Einsum", inputs, attrs)


@lowers("EINSUM_EX")
def _einsum(call: Call) -> None:
    """The equation comes last, its characters as bytes."""
    last = len(call) - 1
    equation = call.known(last).tobytes().decode("ascii", "replace").replace("\0", "")
    _sum_of_products(call, [call[index] for index in range(last)], equation)


@lowers("MATRIX_BAND_PART_EX")
def _matrix_band_part(call: Call) -> None:
    own(call, 3, 1)


@lowers("STATELESS_RANDOM_UNIFORM_EX")
def _stateless_random_uniform(call: Call) -> None:
    own(call, 2, 1)


@lowers("RANDOM_MULTINOMIAL")
def _random_multinomial(call: Call) -> None:
    """The number of samples, then the seeds."""
    own(call, 3, 1)
