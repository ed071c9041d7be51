"""FULLY_CONNECTED: each row of the input times the transposed weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Op, Shape
from circlet.ops import checks
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import affine, count, moves_bytes, operand
from circlet.ops.weighted import (
    centred_int16,
    convolution_is_asymmetric,
    evaluate_fully_connected,
    factor_in_reach,
)

_INTEGER_FORMS = ("UINT8 UINT8", "INT8 INT8", "INT16 INT8")
_FLOAT_FORMS = ("FLOAT32 FLOAT32", "FLOAT32 INT8")


@dataclass(frozen=True)
class FullyConnectedAttrs:
    """Options of FULLY_CONNECTED."""

    activation: str = "NONE"
    weights_format: str = "DEFAULT"
    keep_num_dims: bool = False
    asymmetric_quantize_inputs: bool = False
    quantized_bias_type: str = "FLOAT32"


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    units, depth = operand(op, 1).shape
    if op.attributes(FullyConnectedAttrs).keep_num_dims:
        return [TensorType(data.dtype, (*data.shape[:-1], units))]
    elements = count(data.shape) if data.has_rank else None
    rows = elements // depth if elements is not None and depth else None
    sizes: Shape = (rows, units)
    return [TensorType(data.dtype, sizes)]


def _depth_fits(op: Op) -> bool:
    data, depth = operand(op, 0), operand(op, 1).shape[1]
    if not data.has_rank:
        return True
    if op.attributes(FullyConnectedAttrs).keep_num_dims:
        return bool(data.shape) and (None in (depth, data.shape[-1]) or depth == data.shape[-1])
    elements = count(data.shape)
    return elements is None or depth is None or elements % depth == 0


def hybrid_is_asymmetric(op: Op) -> bool:
    """Whether a hybrid op with weights, this one or a convolution, gives rows a zero point."""
    if isinstance(op.attrs, FullyConnectedAttrs):
        return op.attrs.asymmetric_quantize_inputs
    return convolution_is_asymmetric(op)


def _units(op: Op) -> int | None:
    return operand(op, 1).shape[0]


def _cost(op: Op) -> Cost:
    macs = operand(op, 0).elements * operand(op, 1).static_shape[0]
    return Cost(macs=macs, bytes=moves_bytes(op).bytes)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    attrs = op.attributes(FullyConnectedAttrs)
    data, weights = arrays[0], arrays[1]
    assert data is not None and weights is not None
    rows = data.reshape(-1, weights.shape[1])
    result = evaluate_fully_connected(
        op, [rows, *arrays[1:]], asymmetric=attrs.asymmetric_quantize_inputs
    )
    sizes = data.shape[:-1] if attrs.keep_num_dims else rows.shape[:1]
    return [result.reshape(*sizes, weights.shape[0])]


FULLY_CONNECTED = register(
    OpDef(
        kind="FULLY_CONNECTED",
        attrs=FullyConnectedAttrs,
        arity=(2, 3),
        required=2,
        dtypes=(
            *(
                f"{form} {bias} -> {form.split()[0]}"
                for forms, wide in ((_FLOAT_FORMS, "FLOAT32"), (_INTEGER_FORMS, "INT32"))
                for form in forms
                for bias in (wide, "_")
            ),
            "INT16 INT8 INT64 -> INT16",
            "INT16 INT16 _ -> INT16",
            "FLOAT32 UINT8 FLOAT32 -> FLOAT32",
            "FLOAT32 UINT8 _ -> FLOAT32",
        ),
        infer=_infer,
        rules=(
            checks.rank_is(1, 2, "weights"),
            checks.not_empty(1),
            checks.one_of("activation", checks.ACTIVATIONS),
            checks.one_of("weights_format", ("DEFAULT",)),
            Rule(
                "depth_fits",
                _depth_fits,
                "the input must be rows of as many values as weights",
            ),
            checks.bias_fits(2, _units),
            affine(0),
            checks.weights_quantised(1, 0, _units),
            factor_in_reach(),
            centred_int16(),
        ),
        evaluate=_evaluate,
        cost=_cost,
    )
)
