"""Two matrix products and the softmax between them become one kernel call."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops.batch_matmul import adjoint
from circlet.ops.fused import FUSED_ATTENTION, FusedAttrs
from circlet.ops.requantize import activation_of
from circlet.passes.match import RESHAPES

_FEWEST_ROWS = 8
_MOST_AXES = 8
_MOST_PACKED = 2 << 20  # elements of k and v of one stacked matrix


@dataclass(frozen=True)
class FuseAttention:
    """Compute attention block by block, its scores never leaving the cache.

    Before: `BATCH_MATMUL(q, k) -> MUL s -> ADD mask -> SOFTMAX -> BATCH_MATMUL(.., v) -> y`, with
    or without the factor and the mask, reshapes of stacked matrices anywhere. After: one
    `FUSED_ATTENTION(q, k, v, mask)`. Powers are divided by their sum after the second product.
    Only native code runs the result: placement comes first.
    """

    name = "fuse-attention"
    needs = frozenset({"BATCH_MATMUL"})

    def run(self, graph: Graph) -> bool:
        """Fuse every attention that can be."""
        matcher = _Matcher(graph)
        found = [parts for op in graph.ops if op.kind == "SOFTMAX" and (parts := matcher.match(op))]
        fused = {parts[-1]: _fused(parts) for parts in found}
        gone = {part for parts in found for part in parts[:-1]}
        graph.ops[:] = [fused.get(op, op) for op in graph.ops if op not in gone]
        return bool(fused)


def factor_of(op: Op) -> Tensor | None:
    """The constant that a MUL by a single number multiplies with."""
    constants = [t for t in op.inputs if t is not None and t.data is not None and t.elements == 1]
    return constants[0] if op.kind == "MUL" and len(constants) == 1 else None


def mask_of(op: Op, parts: tuple[Op, ...]) -> Tensor:
    """The operand of an ADD that none of the ops `parts` makes."""
    made = {part.outputs[0] for part in parts}
    (mask,) = [t for t in op.inputs if t is not None and t not in made]
    return mask


def _fused(parts: tuple[Op, ...]) -> Op:
    first, last = parts[0], parts[-1]
    masks = [mask_of(part, parts) for part in parts if part.kind == "ADD"]
    inputs = [*first.inputs, last.inputs[1], *masks]
    origin = Origin.union(part.origin for part in parts)
    return Op(FUSED_ATTENTION, inputs, last.outputs, FusedAttrs(parts), origin)


class _Matcher:
    """Finds the ops around a softmax that are attention."""

    def __init__(self, graph: Graph) -> None:
        self._producers = graph.producers()
        self._readers = graph.consumers()
        self._seen = frozenset(graph.outputs)

    def match(self, softmax: Op) -> tuple[Op, ...]:
        """The ops from the first product to the second, in order; none where it is another."""
        before, after = self._before(softmax), self._after(softmax)
        parts = (*before, softmax, *after)
        return parts if before and after and _fits(parts) else ()

    def _before(self, softmax: Op) -> list[Op]:
        parts: list[Op] = []
        tensor = softmax.inputs[0]
        while tensor is not None and self._is_private(tensor):
            op = self._producers.get(tensor)
            if op is None or tensor.dtype is not DType.FLOAT32:
                break
            parts.insert(0, op)
            if op.kind == "BATCH_MATMUL":
                return parts
            tensor = self._scores(op)
        return []

    def _after(self, softmax: Op) -> list[Op]:
        parts: list[Op] = []
        tensor = softmax.outputs[0]
        while self._is_private(tensor):
            (op,) = self._readers[tensor]
            parts.append(op)
            if op.kind == "BATCH_MATMUL":
                return parts if op.inputs[0] is tensor else []
            if not _keeps_matrices(op):
                break
            tensor = op.outputs[0]
        return []

    def _scores(self, op: Op) -> Tensor | None:
        """The operand of an op between product and softmax that the product makes."""
        if _keeps_matrices(op):
            return op.inputs[0]
        if activation_of(op) != "NONE":
            return None
        factor = factor_of(op)
        if factor is None and op.kind != "ADD":
            return None
        whole = [
            t
            for t in op.inputs
            if t is not None and t.shape == op.outputs[0].shape and self._comes_from_product(t)
        ]
        return whole[0] if len(whole) == 1 else None

    def _comes_from_product(self, tensor: Tensor) -> bool:
        """Whether reshapes and factors alone lie between a product and a tensor."""
        op = self._producers.get(tensor)
        while op is not None and op.kind != "BATCH_MATMUL":
            factor = factor_of(op)
            if not _keeps_matrices(op) and factor is None:
                return False
            inputs = op.inputs[:1] if factor is None else op.inputs
            (source,) = [t for t in inputs if t is not factor]
            op = None if source is None else self._producers.get(source)
        return op is not None

    def _is_private(self, tensor: Tensor) -> bool:
        return len(self._readers.get(tensor, ())) == 1 and tensor not in self._seen


def _keeps_matrices(op: Op) -> bool:
    if op.kind not in RESHAPES or op.inputs[0] is None:
        return False
    source, result = op.inputs[0].static_shape, op.outputs[0].static_shape
    return len(source) >= 2 and source[-2:] == result[-2:]


def _fits(parts: tuple[Op, ...]) -> bool:
    first, last = parts[0], parts[-1]
    tensors = [t for op in (first, last) for t in (*op.inputs, *op.outputs)]
    floats = all(t is not None and t.dtype is DType.FLOAT32 for t in tensors)
    kinds = [part.kind for part in parts if part.kind in ("ADD", "MUL")]
    ordered = kinds in ([], ["ADD"], ["MUL"], ["MUL", "ADD"])
    shapes = [t.static_shape for t in tensors if t is not None]
    low = all(2 <= len(shape) < _MOST_AXES for shape in shapes)
    if not floats or not ordered or not low or adjoint(first)[0] or adjoint(last)[0]:
        return False
    rows, keys = first.outputs[0].static_shape[-2:]
    panels = shapes[0][-1] + last.outputs[0].static_shape[-1]
    if keys * panels > _MOST_PACKED:
        return False
    stacked = first.outputs[0].elements == last.inputs[0].elements  # type: ignore[union-attr]
    return stacked and rows >= _FEWEST_ROWS and all(0 not in shape for shape in shapes)
