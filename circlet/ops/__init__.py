"""Operator records: everything that is true of an operator regardless of backend."""

from circlet.ops.opdef import (
    Arrays,
    CFunction,
    Cost,
    Effects,
    NoAttrs,
    OpDef,
    QuantRule,
    Rule,
    TensorType,
    all_records,
    dtype_text,
    find,
    get,
    is_pure,
    register,
    unregister,
    unsupported_reason,
)

__all__ = [
    "Arrays",
    "CFunction",
    "Cost",
    "Effects",
    "NoAttrs",
    "OpDef",
    "QuantRule",
    "Rule",
    "TensorType",
    "all_records",
    "dtype_text",
    "find",
    "get",
    "is_pure",
    "register",
    "unregister",
    "unsupported_reason",
]

# Families register their records when they are imported.
from circlet.ops import conv, fully_connected, pool, transpose_conv  # noqa: F401, I001
from circlet.ops import activation, arithmetic, layout, quantize, quotient  # noqa: F401
from circlet.ops import reduce, resize, shape, smooth, softmax  # noqa: F401
from circlet.ops import comparison, control, refused, variable, math  # noqa: F401
from circlet.ops import blocks, choose, detection, facts, gather, groups  # noqa: F401
from circlet.ops import order, repeat, scatter, segments, slicing, split  # noqa: F401
from circlet.ops import strided_slice, suppression  # noqa: F401
from circlet.ops import batch_matmul, bits, composite, conv3d, fft, fused, inverse_root  # noqa: F401
from circlet.ops import lstm, svdf  # noqa: F401
from circlet.ops import densify, embedding_sparse, local_response_norm, lookup  # noqa: F401
from circlet.ops import lsh_projection, random, skip_gram  # noqa: F401
from circlet.ops import bcq, circle_attention, circle_norm, rope  # noqa: F401
from circlet.ops import gru, lstm_bidirectional, rnn  # noqa: F401
from circlet.ops import ngrams, ragged  # noqa: F401
from circlet.ops import nnapi, onnx  # noqa: F401
from circlet.ops import audio, bounded, mediapipe, micro_decode, signal  # noqa: F401
from circlet.ops import stablehlo  # noqa: F401
