"""One operator, beside LiteRT's reference kernel: built, written, run and compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet.formats.schema import by_name
from circlet.formats.write_model import write_model
from circlet.ir import DType, Model, Op, Origin, Quantization, Tensor
from circlet.ir.graph import Graph
from circlet.ops import find, unsupported_reason
from circlet.ops.opdef import Rule

_WITHOUT_REFERENCE = frozenset(
    (
        *("ELU", "GELU", "CEIL", "ROUND", "LOCAL_RESPONSE_NORMALIZATION"),
        *("STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT", "STABLEHLO_CASE"),
    )
)


def tensor(
    name: str,
    array: np.ndarray,
    quant: tuple[float, int] | Quantization | None = None,
    constant: bool = False,
) -> Tensor:
    """A tensor of an array's type and sizes; a pair is a per-tensor scale and zero point."""
    params = Quantization.per_tensor(*quant) if isinstance(quant, tuple) else quant
    data = array if constant else None
    return Tensor(name, DType.of(array), array.shape, params, data=data)


def make_op(
    kind: str,
    inputs: Sequence[Tensor | None],
    output: tuple[DType, tuple[float, int] | None],
    attrs: object = None,
    version: int = 1,
    outputs: Sequence[Tensor] | None = None,
) -> Op:
    """An op whose one output has inferred sizes, or that has the outputs that are given."""
    record = find(kind)
    assert record is not None
    quant = None if output[1] is None else Quantization.per_tensor(*output[1])
    result = Tensor("result", output[0], (), quant)
    options = record.attrs() if attrs is None else attrs
    made = [result] if outputs is None else list(outputs)
    op = Op(kind, list(inputs), made, options, Origin.of(0, "result"), version)
    if outputs is None:
        result.shape = record.infer(op)[0].shape
    return op


def has_reference(op: Op) -> bool:
    """Whether LiteRT's reference kernel exists and is right.

    It has none for some kinds, its SUM reads int8 and int16 elements as uint8, and its
    LOCAL_RESPONSE_NORMALIZATION leaves out the last neighbour.
    """
    broken_sum = op.kind == "SUM" and op.outputs[0].dtype in (DType.INT8, DType.INT16)
    kinds = {op.kind, *(inner.kind for region in op.regions for inner in region.ops)}
    return not kinds & _WITHOUT_REFERENCE and not broken_sum


def peer_result(op: Op, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The first of `peer_results`."""
    return peer_results(op, arrays)[0]


def peer_results(op: Op, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What LiteRT's reference kernel gives for the op's non-constant inputs.

    Where there is none, LiteRT's default kernel is the judge.
    """
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the judge")
    fed = [t for t in op.inputs if t is not None and not t.is_constant]
    tensors = [t for t in op.inputs if t is not None] + op.outputs
    graph = Graph("main", fed, op.outputs, [op], tensors)
    content = bytes(write_model(Model([graph, *op.regions]), by_name("tflite"), origins=False))
    resolvers = litert.OpResolverType
    plain = resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(
        model_content=content,
        num_threads=1,
        experimental_op_resolver_type=resolvers.BUILTIN_REF if has_reference(op) else plain,
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    details = interpreter.get_output_details()
    return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in details]


def own_result(op: Op, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What the record's semantics give, after its rules held."""
    record = find(op.kind)
    assert record is not None
    assert unsupported_reason(op) is None
    assert [rule.name for rule in record.rules if not rule.holds(op)] == []
    fed = iter(arrays)
    values = [None if t is None else t.data if t.is_constant else next(fed) for t in op.inputs]
    with np.errstate(all="ignore"):
        result = record.evaluate(op, values)[0]
    inferred = record.infer(op)[0]
    assert (inferred.dtype, inferred.shape) == (DType.of(result), result.shape)
    return result


def assert_agrees(op: Op, arrays: Sequence[np.ndarray], bar: float = 1e-6) -> None:
    """Integers bit for bit, floats within `bar` of max(1, max|wanted|)."""
    wanted, actual = peer_result(op, arrays), own_result(op, arrays)
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(actual, wanted)
        return
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    np.testing.assert_allclose(actual / scale, wanted / scale, rtol=0, atol=bar)


def broken_rule(op: Op) -> str:
    """Name of the first rule an op breaks, "" for none."""
    record = find(op.kind)
    assert record is not None
    rules: tuple[Rule, ...] = record.rules
    return next((rule.name for rule in rules if not rule.holds(op)), "")


def stored_values(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Seeded integers over the whole range of a type."""
    info = np.iinfo(dtype.value.lower())
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)


def every_value(dtype: DType) -> np.ndarray:
    """All 256 values of an 8-bit type, as one row."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)[None]


def centre(dtype: DType) -> int:
    """What to add to a zero point written for int8."""
    return 128 if dtype is DType.UINT8 else 0
