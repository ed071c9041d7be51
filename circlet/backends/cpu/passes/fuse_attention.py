"""Two matrix products and the softmax between them become one kernel call."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.backends.cpu.passes.masks import Masks, masked_scores
from circlet.backends.cpu.passes.scores import (
    factor_of,
    may_have_one_mask,
    scale_of,
    with_one_mask,
)
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.batch_matmul import adjoint
from circlet.ops.fused import FUSED_ATTENTION, AttentionAttrs
from circlet.ops.operands import is_reshape
from circlet.ops.requantize import activation_of
from circlet.ops.softmax import SoftmaxAttrs
from circlet.passes import Rewriter

_FEWEST_ROWS = 8
_MOST_AXES = 8
_FARTHEST = 32  # operators that are looked at between scores and their product
_MOST_PACKED = 2 << 20  # elements of k and v of one stacked matrix


@dataclass(frozen=True)
class FuseAttention:
    """Compute attention block by block, its scores never leaving the cache.

    Before: `BATCH_MATMUL(q, k) -> MUL s -> ADD mask -> SOFTMAX -> BATCH_MATMUL(.., v) -> y`, with
    or without the factor and the mask, reshapes of stacked matrices anywhere. After: one
    `FUSED_ATTENTION(q, k, v, mask)`. Powers are divided by their sum after the second product.
    Scores may be divided instead, and masked by a SELECT of a number so low that finite scores do
    not change it. Masks that follow each other are added up first. What is not a number after the
    softmax may be made 0, as PyTorch does for rows that are masked as a whole.
    """

    name = "fuse-attention"
    needs = frozenset({"BATCH_MATMUL"})

    def run(self, graph: Graph) -> bool:
        """Fuse every attention that can be."""
        rewriter, masks = Rewriter(graph), Masks()
        for op in rewriter.ops():
            if op.kind != "SOFTMAX":
                continue
            before, after = _before(op, rewriter), _after(op, rewriter)
            old = (*before, op, *after)
            if before and after and _fits(old) and may_have_one_mask(before):
                added, chosen = masks.as_additions(before)
                scores, made = with_one_mask(added)
                rewriter.replace(old, *chosen, *made, _fused((*scores, op, *after), op))
        return rewriter.finish()


def _fused(parts: tuple[Op, ...], softmax: Op) -> Op:
    first, last = parts[0], parts[-1]
    made = {part.outputs[0] for part in parts}
    adds = [part for part in parts if part.kind == "ADD"]
    masks = [t for add in adds for t in add.inputs if t not in made]
    factors = [factor for part in parts if (factor := scale_of(part)) is not None]
    attrs = AttentionAttrs(
        parts,
        scale=factors[0] if factors else 1.0,
        beta=softmax.attributes(SoftmaxAttrs).beta,
        mask_shape=adds[0].outputs[0].static_shape if adds else (),
        is_guarded=any(part.kind == "NOT_EQUAL" for part in parts),
    )
    inputs = [*first.inputs, last.inputs[1], *masks]
    return Op(FUSED_ATTENTION, inputs, last.outputs, attrs, last.origin)


def _before(softmax: Op, rewriter: Rewriter) -> tuple[Op, ...]:
    """The ops from the first product to a softmax, in order; none where it is another network."""
    parts: list[Op] = []
    tensor = softmax.inputs[0]
    while tensor is not None and rewriter.is_private(tensor):
        op = rewriter.producer(tensor)
        if op is None or tensor.dtype is not DType.FLOAT32:
            break
        parts.insert(0, op)
        if op.kind == "BATCH_MATMUL":
            return tuple(parts)
        tensor = _scores(op, rewriter)
    return ()


def _after(softmax: Op, rewriter: Rewriter) -> list[Op]:
    """The ops after a softmax up to the second product; none where it is another network."""
    parts = _guard(softmax.outputs[0], rewriter)
    tensor = parts[-1].outputs[0] if parts else softmax.outputs[0]
    while rewriter.is_private(tensor):
        (op,) = rewriter.readers(tensor)
        parts.append(op)
        if op.kind == "BATCH_MATMUL":
            return parts if op.inputs[0] is tensor else []
        if not _keeps_matrices(op):
            break
        tensor = op.outputs[0]
    return []


def _guard(tensor: Tensor, rewriter: Rewriter) -> list[Op]:
    """The ops that put 0 in the place of what is not a number, where these read a tensor."""
    readers = sorted(rewriter.readers(tensor), key=rewriter.position)
    if [op.kind for op in readers] != ["NOT_EQUAL", "SELECT_V2"] or tensor in rewriter.boundary:
        return []
    test, choice = readers
    asked, zero, other = choice.inputs
    is_test = test.inputs == [tensor, tensor] and asked is test.outputs[0] and other is tensor
    is_zero = zero is not None and zero.data is not None and not zero.data.any()
    same = choice.outputs[0].shape == tensor.shape
    return readers if is_test and is_zero and same and rewriter.is_private(test.outputs[0]) else []


def _scores(op: Op, rewriter: Rewriter) -> Tensor | None:
    """The operand of an op between product and softmax that the product makes."""
    if _keeps_matrices(op):
        return op.inputs[0]
    if activation_of(op) != "NONE":
        return None
    factor, masked = factor_of(op), masked_scores(op)
    if masked is not None:
        return masked if _comes_from_product(masked, rewriter) else None
    if factor is None and op.kind != "ADD":
        return None
    shape = op.outputs[0].shape
    same = [t for t in op.inputs if t is not None and t.shape == shape]
    made = [t for t in same if _comes_from_product(t, rewriter)]
    return made[0] if len(made) == 1 else None


def _comes_from_product(tensor: Tensor, rewriter: Rewriter) -> bool:
    """Whether a tensor is a product that was reshaped, multiplied and masked alone."""
    waiting: list[Tensor | None] = [tensor]
    for _ in range(_FARTHEST):
        op = rewriter.producer(waiting.pop()) if waiting else None
        if op is not None and op.kind == "BATCH_MATMUL":
            return True
        waiting += [] if op is None else _may_be_scores(op)
    return False


def _may_be_scores(op: Op) -> list[Tensor | None]:
    """The operands of an op that scores may be before it."""
    if _keeps_matrices(op):
        return op.inputs[:1]
    factor, masked = factor_of(op), masked_scores(op)
    if masked is not None:
        return [masked]
    if factor is None and op.kind != "ADD":
        return []
    shape = op.outputs[0].shape
    return [t for t in op.inputs if t is not None and t is not factor and t.shape == shape]


def _keeps_matrices(op: Op) -> bool:
    if not is_reshape(op) or op.inputs[0] is None:
        return False
    source, result = op.inputs[0].static_shape, op.outputs[0].static_shape
    return len(source) >= 2 and source[-2:] == result[-2:]


def _fits(parts: tuple[Op, ...]) -> bool:
    first, last = parts[0], parts[-1]
    tensors = [t for op in (first, last) for t in (*op.inputs, *op.outputs)]
    floats = all(t is not None and t.dtype is DType.FLOAT32 for t in tensors)
    shapes = [t.static_shape for t in tensors if t is not None]
    low = all(2 <= len(shape) < _MOST_AXES for shape in shapes)
    if not floats or not low or adjoint(first)[0] or adjoint(last)[0]:
        return False
    rows, keys = first.outputs[0].static_shape[-2:]
    panels = shapes[0][-1] + last.outputs[0].static_shape[-1]
    if keys * panels > _MOST_PACKED:
        return False
    stacked = first.outputs[0].elements == last.inputs[0].elements  # type: ignore[union-attr]
    return stacked and rows >= _FEWEST_ROWS and all(0 not in shape for shape in shapes)
