"""Random operators: what the rules let through must be computed, or refused by a coded error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.ir import DType, Op, Origin, Quantization, Tensor
from circlet.ops import OpDef, find, unsupported_reason

FLAT = ["ADD", "MUL", "SUB", "DIV", "MAXIMUM", "SQUARED_DIFFERENCE", "NEG", "RELU6", "LEAKY_RELU"]
SMOOTH = ["PRELU", "LOGISTIC", "HARD_SWISH", "GELU", "SOFTMAX", "LOG_SOFTMAX"]
MOVES = ["RESHAPE", "SQUEEZE", "EXPAND_DIMS", "PAD", "PADV2", "CONCATENATION", "TRANSPOSE"]
FOLDS = ["MEAN", "SUM", "REDUCE_MAX", "ARG_MAX", "ARG_MIN"]
FORMS = ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "QUANTIZE", "DEQUANTIZE", "CAST"]
RARE = ("PADV2", "ARG_MAX", "ARG_MIN")
TYPES = [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL]
SCALES = [
    None,
    0.1,
    0.1,
    1e-6,
    1e6,
    1e-12,
    1e12,
    1e38,
    1e-38,
    0.0,
    float("nan"),
    float("inf"),
    1 / 256,
]
TEXTS = ["NONE", "RELU", "TANH", "FLOAT32", "INT32", "INT64"]
WORDS = {"coordinate_transformation": ["asymmetric", "half_pixel", "align_corners", "cubic"]}


def random_tensor(rng: np.random.Generator, index: int, dtype: DType) -> tuple[Tensor, np.ndarray]:
    shape = tuple(int(n) for n in rng.choice([0, 1, 1, 2, 3], rng.choice([0, 1, 1, 2, 3, 4])))
    values = rng.integers(-3, 5, shape).astype(dtype.numpy)
    known = bool(rng.random() < 0.7) and index > 0
    sizes = tuple(None if rng.random() < 0.1 and not known else size for size in shape)
    data = values if known else None
    return Tensor(f"t{index}", dtype, sizes, random_quant(rng), data=data), values


def random_quant(rng: np.random.Generator) -> Quantization | None:
    scale = SCALES[int(rng.integers(len(SCALES)))]
    zero = int(rng.choice([0, 3, -128, 128, 1000]))
    return None if scale is None else Quantization.per_tensor(scale, zero)


def random_attrs(rng: np.random.Generator, record: OpDef) -> object:
    values: dict[str, object] = {}
    for field in dataclasses.fields(record.attrs):
        default = field.default
        if isinstance(default, bool):
            values[field.name] = bool(rng.random() < 0.5)
        elif isinstance(default, tuple):
            values[field.name] = tuple(int(n) for n in rng.integers(-2, 4, rng.integers(0, 3)))
        elif isinstance(default, str):
            words = WORDS.get(field.name, TEXTS)
            values[field.name] = words[int(rng.integers(len(words)))]
        elif isinstance(default, float):
            values[field.name] = float(rng.choice([-2, 0, 0.3, 1, 1e30, np.nan, np.inf]))
        else:
            values[field.name] = int(rng.choice([-2, 0, 1, 3]))
    return record.attrs(**values)


def random_op(rng: np.random.Generator, kind: str) -> tuple[Op, list[np.ndarray]]:
    record = find(kind)
    assert record is not None
    main = TYPES[int(rng.integers(len(TYPES)))]
    count = int(rng.integers(record.required, min(record.arity[1], 3) + 1))
    types = [main, main if rng.random() < 0.5 else DType.INT32, main]
    pairs = [random_tensor(rng, index, types[index]) for index in range(count)]
    out = main if rng.random() < 0.7 else TYPES[int(rng.integers(len(TYPES)))]
    result = Tensor("result", out, (), random_quant(rng))
    inputs: list[Tensor | None] = [tensor for tensor, _ in pairs]
    op = Op(kind, inputs, [result], random_attrs(rng, record), Origin.of(0, "result"))
    values = [array for _, array in pairs]
    helped(rng, op, values)
    return op, values


def helped(rng: np.random.Generator, op: Op, values: list[np.ndarray]) -> None:
    """Give kinds that chance would rarely satisfy a fitting second operand, half of the time."""
    if op.kind not in ("TRANSPOSE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        return
    first = op.inputs[0]
    if rng.random() < 0.5 or first is None:
        return
    if op.kind == "TRANSPOSE":
        values[1] = rng.permutation(values[0].ndim).astype(np.int32)
    else:
        values[0], first.shape = np.ones((1, 2, 3, 1), values[0].dtype), (1, 2, 3, 1)
        values[1] = rng.integers(0, 4, 2).astype(np.int32)
    op.inputs[1] = Tensor("second", DType.INT32, values[1].shape, data=values[1])
    if rng.random() < 0.5:
        op.outputs[0] = Tensor("result", first.dtype, (), first.quant)


def is_static(op: Op) -> bool:
    """Whether all sizes and all operands beside the first are known before a run."""
    rest = [tensor for tensor in op.inputs[1:] if tensor is not None]
    sizes = [size for tensor in op.inputs if tensor is not None for size in tensor.shape]
    return None not in sizes and all(tensor.is_constant for tensor in rest)


def result_of(op: Op, values: list[np.ndarray]) -> bool:
    """Whether the op got through its rules and was computed."""
    record = find(op.kind)
    assert record is not None
    if unsupported_reason(op) or not all(rule.holds(op) for rule in record.rules):
        return False
    inferred = record.infer(op)[0]
    op.outputs[0].shape = inferred.shape
    result = record.evaluate(op, values)[0]
    assert inferred.dtype is DType.of(result)
    if is_static(op):
        assert inferred.shape == result.shape
    return True


@pytest.mark.parametrize("kind", [*FLAT, *SMOOTH, *MOVES, *FOLDS, *FORMS])
def test_what_the_rules_let_through_is_computed(kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    computed = 0
    for _ in range(400):
        op, values = random_op(rng, kind)
        try:
            computed += result_of(op, values)
        except CircletError:
            continue
    assert computed > 0 or kind in RARE


def test_a_tensor_of_unknown_rank_is_checked_by_the_run() -> None:
    record = find("TRANSPOSE")
    assert record is not None
    source = Tensor("x", DType.FLOAT32, (), has_rank=False)
    order = np.array([1, 0], np.int32)
    inputs: list[Tensor | None] = [source, Tensor("perm", DType.INT32, (2,), data=order)]
    result = Tensor("result", DType.FLOAT32, (None, None))
    op = Op("TRANSPOSE", inputs, [result], record.attrs(), Origin.of(0, "result"))
    assert all(rule.holds(op) for rule in record.rules)
    assert record.infer(op)[0].shape == (None, None)
    assert record.evaluate(op, [np.ones((2, 3)), order])[0].shape == (3, 2)
    with pytest.raises(CircletError):
        record.evaluate(op, [np.ones(3), order])


def test_a_constant_scalar_axis_has_a_rank() -> None:
    record = find("EXPAND_DIMS")
    assert record is not None
    axis = Tensor("axis", DType.INT32, (), data=np.array(1, np.int32), has_rank=False)
    inputs: list[Tensor | None] = [Tensor("x", DType.FLOAT32, (2, 3)), axis]
    result = Tensor("result", DType.FLOAT32, ())
    op = Op("EXPAND_DIMS", inputs, [result], record.attrs(), Origin.of(0, "result"))
    assert record.infer(op)[0].shape == (2, 1, 3)
