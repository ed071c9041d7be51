"""Products between DequantizeLinear and QuantizeLinear run on the integers that are stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.ops.opdef import NoAttrs
from circlet.ops.requantization import EVEN
from circlet.ops.requantize import activation_of
from circlet.passes.contract import Contract
from circlet.passes.move_transposes import MoveTransposes
from circlet.passes.quantised import (
    Parameters,
    Weights,
    as_type,
    bias_of,
    parameters,
    real_constant,
    weights_of,
    with_parameters,
)
from circlet.passes.remove_dead_ops import RemoveDeadOps
from circlet.passes.rewriter import Rewriter
from circlet.passes.signed_storage import store_signed
from circlet.passes.sink_dequantize import sink_dequantize

_MOST_TURNS = 8
_STORED = frozenset({DType.INT8, DType.UINT8})
_CLAMPS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1"})
_PRODUCTS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}


@dataclass(frozen=True)
class FuseQdq:
    """Give convolutions, fully connected layers and products of matrices the integers around them.

    Before: `DequantizeLinear(x) -> CONV_2D(DequantizeLinear(w)) -> RELU -> QuantizeLinear`. After:
    `CONV_2D{RELU}` of INT8, whose sums are scaled as ONNX Runtime does it, as are those of
    BATCH_MATMUL over two such operands. What only moves elements moves the stored ones. Results
    differ by one step at most, where float sums were rounded, so that sessions run it whatever
    their level is.
    """

    name = "fuse-qdq"
    contract = Contract(
        tolerance=0.1,
        why="sums are rounded once, as integers, not at each step; a step of the scale per layer",
        native_only="files mean other roundings than ONNX's where they store integers",
        grows=dict.fromkeys(
            ("operators", "bytes_moved"),
            "weights that other types are made of are stored beside those",
        ),
    )
    needs = frozenset({"CUSTOM"})

    def run(self, graph: Graph) -> bool:
        """Fuse until no product is left that can be: what goes with one lets others move."""
        if not any(op.label in (QUANTIZE, DEQUANTIZE) for op in graph.ops):
            return False
        turns = 0
        while turns < _MOST_TURNS and _fused(graph):
            turns += 1
        return turns > 0


def _fused(graph: Graph) -> bool:
    """Bring what is quantised to its products, then fuse every product that can be."""
    changed = store_signed(graph)
    changed |= MoveTransposes().run(graph)
    changed |= sink_dequantize(graph)
    changed |= RemoveDeadOps().run(graph)
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.label == QUANTIZE and not _fuse_matmul(op, rewriter):
            _fuse(op, rewriter)
    changed |= rewriter.finish()
    _state_fills(graph)
    return changed


def _state_fills(graph: Graph) -> None:
    """Give what stored images are filled with, which was stored too, the scale of the images."""
    for op in graph.ops:
        data, fill = op.input(0), op.input(2)
        if op.kind != "PADV2" or data is None or fill is None or data.quant is None:
            continue
        if fill.quant is None and fill.is_constant:
            op.inputs[2] = replace(fill, quant=data.quant)


@dataclass
class _Chain:
    """A product, what follows it as far as its quantisation, and its bias."""

    product: Op
    followers: list[Op]
    bias: Tensor | None
    activation: str


def _fuse(op: Op, rewriter: Rewriter) -> None:
    result, chain = parameters(op), _chain(op, rewriter)
    if result is None or chain is None or op.outputs[0].dtype.bits != 8:
        return
    product = chain.product
    source = rewriter.producer(product.input(0))
    if source is None or source.label != DEQUANTIZE:
        return
    data, given, weights = source.inputs[0], parameters(source), _weights(product, rewriter)
    if data is None or given is None or weights is None or data.is_constant:
        return
    if data.dtype not in _STORED:
        return
    bias = bias_of(chain.bias, given, weights, rewriter)
    if bias is not None:
        _replace(op, chain, (data, given), result, (weights, bias[0]), rewriter)


def _fuse_matmul(op: Op, rewriter: Rewriter) -> bool:
    """Fuse a product of two computed matrices that alone an op quantises."""
    result, product = parameters(op), rewriter.producer(op.inputs[0])
    if result is None or product is None or product.kind != "BATCH_MATMUL":
        return False
    if op.outputs[0].dtype not in _STORED or not rewriter.is_private(product.outputs[0]):
        return False
    operands: list[tuple[Tensor, Parameters]] = []
    for tensor in product.inputs:
        source = rewriter.producer(tensor)
        given = parameters(source) if source is not None and source.label == DEQUANTIZE else None
        data = source.inputs[0] if source is not None else None
        if given is None or data is None or data.is_constant or data.dtype not in _STORED:
            return False
        operands.append((data, given))
    stored = [as_type(data, given, DType.INT8, op.origin) for data, given in operands]
    before = [each for _, made in stored for each in made]
    made, after = _result(op.outputs[0], result, DType.INT8, op)
    origin = Origin.union([op.origin, *_dequantising(product, rewriter)])
    inputs: list[Tensor | None] = [tensor for tensor, _ in stored]
    fused = Op("BATCH_MATMUL", inputs, [made], product.attrs, origin, requantization=EVEN)
    rewriter.replace([product, op], *before, fused, *after)
    return True


def _weights(product: Op, rewriter: Rewriter) -> Weights | None:
    return weights_of(product.input(1), _PRODUCTS[product.kind], rewriter)


def _chain(op: Op, rewriter: Rewriter) -> _Chain | None:
    """The product whose result an op quantises, alone to read it."""
    followers: list[Op] = []
    activation, bias, tensor = "NONE", None, op.inputs[0]
    while tensor is not None and rewriter.is_private(tensor):
        producer = rewriter.producer(tensor)
        if producer is None:
            return None
        if producer.kind in _PRODUCTS:
            own = activation_of(producer)
            if own != "NONE" and (activation != "NONE" or bias is not None):
                return None
            kept = producer.input(2) if bias is None else bias
            activation = own if activation == "NONE" else activation
            return _Chain(producer, followers[::-1], kept, activation)
        if producer.kind in _CLAMPS and activation == "NONE" and bias is None:
            activation, following = producer.kind, producer.inputs[0]
        elif producer.kind == "ADD" and bias is None:
            found = _added(producer, rewriter)
            if found is None or (activation_of(producer) != "NONE" and activation != "NONE"):
                return None
            own = activation_of(producer)
            activation = own if activation == "NONE" else activation
            bias, following = found
        else:
            return None
        followers.append(producer)
        tensor = following
    return None


def _added(op: Op, rewriter: Rewriter) -> tuple[Tensor, Tensor] | None:
    """The bias that an ADD gives to a FULLY_CONNECTED without one, and what it is added to."""
    for tensor, other in (op.inputs, op.inputs[::-1]):
        producer = rewriter.producer(tensor)
        if tensor is None or other is None or producer is None:
            continue
        if producer.kind != "FULLY_CONNECTED" or producer.input(2) is not None:
            continue
        units = tensor.shape[-1]
        values = real_constant(other, rewriter)
        if values is not None and values.size == units and values.shape[-1:] == (units,):
            return other, tensor
    return None


def _replace(
    op: Op,
    chain: _Chain,
    source: tuple[Tensor, Parameters],
    result: Parameters,
    constants: tuple[Weights, Tensor | None],
    rewriter: Rewriter,
) -> None:
    (data, given), (weights, bias), product = source, constants, chain.product
    dtype = weights.tensor.dtype
    stored, before = as_type(data, given, dtype, op.origin)
    made, after = _result(op.outputs[0], result, dtype, op)
    attrs = replace(product.attrs, activation=chain.activation)  # type: ignore[type-var]
    origin = Origin.union([op.origin, *_dequantising(product, rewriter)])
    fused = Op(
        product.kind, [stored, weights.tensor, bias], [made], attrs, origin, requantization=EVEN
    )
    old = [product, *chain.followers, op]
    rewriter.replace(old, *before, fused, *after)


def _dequantising(product: Op, rewriter: Rewriter) -> Iterator[Origin]:
    """The origins of what makes real numbers of a product's operands, which it does without."""
    for tensor in product.inputs:
        made, op = [], rewriter.producer(tensor)
        while op is not None and op.kind in ("TRANSPOSE", "RESHAPE"):
            made.append(op.origin)
            op = rewriter.producer(op.inputs[0])
        if op is not None and op.label == DEQUANTIZE:
            yield from (*made, op.origin)


def _result(
    tensor: Tensor, wanted: Parameters, dtype: DType, op: Op
) -> tuple[Tensor, tuple[Op, ...]]:
    """What the product makes, and the op that brings it to the type that is asked for."""
    with_parameters(tensor, wanted)
    if tensor.dtype is dtype:
        return tensor, ()
    inner = tensor.like(f"{tensor.name}_{dtype.name.lower()}")
    inner.dtype, inner.quant = dtype, wanted.as_type(tensor.dtype, dtype).quant
    return inner, (Op("QUANTIZE", [inner], [tensor], NoAttrs(), op.origin),)
