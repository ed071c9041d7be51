"""What only moves elements moves stored integers, not the real values that they stand for."""

from __future__ import annotations

from dataclasses import replace

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.onnx.quantisation import DEQUANTIZE, QUANTIZE
from circlet.ops.opdef import NoAttrs
from circlet.passes.quantised import Parameters, parameters, with_parameters
from circlet.passes.rewriter import Rewriter

_STORED = frozenset({DType.INT8, DType.UINT8})
_RESHAPES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
_MOVES = _RESHAPES | frozenset(
    {
        "TRANSPOSE",
        "SLICE",
        "STRIDED_SLICE",
        "PAD",
        "RESIZE_NEAREST_NEIGHBOR",
        "MAX_POOL_2D",
    }
)


def sink_dequantize(graph: Graph) -> bool:
    """Have DequantizeLinear run after moves, QuantizeLinear before reshapes and concatenations.

    Before: `DequantizeLinear -> MAX_POOL_2D -> QuantizeLinear`. After: `MAX_POOL_2D`, as
    QuantizeLinear that undoes DequantizeLinear is dropped.
    Before: `CONV_2D -> SQUEEZE -> QuantizeLinear`. After: `CONV_2D -> QuantizeLinear -> SQUEEZE`.
    """
    rewriter = Rewriter(graph)
    for op in rewriter.ops():
        if op.label == QUANTIZE:
            _undo(op, rewriter)
            _raise(op, rewriter)
        elif op.kind in _MOVES:
            _sink(op, rewriter, 1)
        elif op.kind == "CONCATENATION":
            _sink(op, rewriter, len(op.inputs))
    return rewriter.finish()


def _undo(op: Op, rewriter: Rewriter) -> None:
    """Quantising with the scale that was taken off gives back what was stored."""
    before = rewriter.producer(op.inputs[0])
    if before is None or before.label != DEQUANTIZE:
        return
    source, result = before.inputs[0], op.outputs[0]
    if source is None or source.dtype not in _STORED or result.dtype not in _STORED:
        return
    known, wanted = parameters(before), parameters(op)
    if known is None or known.as_type(source.dtype, result.dtype) != wanted:
        return
    if not with_parameters(source, known):
        return
    if source.dtype is result.dtype:
        rewriter.bypass(op, source)
    elif with_parameters(result, wanted):
        flip = Op("QUANTIZE", [source], [result], NoAttrs(), op.origin)
        rewriter.replace([op], flip)


def _raise(op: Op, rewriter: Rewriter) -> None:
    """Quantise what a reshape or a concatenation reads, where nobody else reads what it makes."""
    real, result, known = op.inputs[0], op.outputs[0], parameters(op)
    before = rewriter.producer(real)
    if before is None or real is None or known is None or not rewriter.is_private(real):
        return
    count = len(before.inputs) if _joins(before) else 1
    if before.kind not in _RESHAPES and not _joins(before):
        return
    sources = before.inputs[:count]
    if any(source is None or source.is_constant for source in sources):
        return
    if result.dtype not in _STORED or not with_parameters(result, known):
        return
    quantised: list[Op] = []
    for source in filter(None, sources):
        stored = source.like(f"{source.name}_stored")
        stored.has_rank, stored.dtype, stored.quant = source.has_rank, result.dtype, known.quant
        quantised.append(replace(op, inputs=[source, *op.inputs[1:]], outputs=[stored]))
    inputs = [*(each.outputs[0] for each in quantised), *before.inputs[count:]]
    after = replace(before, inputs=inputs, outputs=[result])
    rewriter.replace([before, op], *quantised, after)


def _joins(op: Op) -> bool:
    """Whether an op is a concatenation that changes no value."""
    return op.kind == "CONCATENATION" and op.attributes(ConcatenationAttrs).activation == "NONE"


def _sink(op: Op, rewriter: Rewriter, count: int) -> None:
    sources: list[Tensor] = []
    found: list[Parameters] = []
    for tensor in op.inputs[:count]:
        before = rewriter.producer(tensor)
        if before is None or before.label != DEQUANTIZE:
            return
        known, source = parameters(before), before.inputs[0]
        if known is None or source is None or source.dtype not in _STORED or source.is_constant:
            return
        found.append(known)
        sources.append(source)
    if len({(*known, source.dtype) for known, source in zip(found, sources, strict=True)}) != 1:
        return
    for source in sources:
        if not with_parameters(source, found[0]):
            return
    _replace(op, sources, found[0], rewriter)


def _replace(op: Op, sources: list[Tensor], known: Parameters, rewriter: Rewriter) -> None:
    made = [rewriter.producer(tensor) for tensor in op.inputs[: len(sources)]]
    last, origins = made[0], [before.origin for before in made if before is not None]
    assert last is not None
    stored = op.outputs[0].like(f"{op.outputs[0].name}_stored")
    stored.has_rank = op.outputs[0].has_rank
    stored.dtype, stored.quant = sources[0].dtype, known.quant
    moved = replace(op, inputs=[*sources, *op.inputs[len(sources) :]], outputs=[stored])
    back = replace(last, inputs=[stored, *last.inputs[1:]], outputs=[*op.outputs])
    back.origin = Origin.union(origins)
    rewriter.replace([op], moved, back)
