"""Images that lie with channels first are resized, pooled and cut to blocks as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.backends.cpu.pixel_lanes import has_pixel_lanes
from circlet.ir import Graph, Op, Tensor
from circlet.ops.blocks import block_size
from circlet.ops.decomposition import Parts
from circlet.ops.layout import permutation
from circlet.ops.operands import operand
from circlet.passes import Contract, Rewriter

_TO_PLANES, _TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
_RESIZE = "RESIZE_NEAREST_NEIGHBOR"
_POOLING = frozenset({"AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"})
_BLOCKS = frozenset({"SPACE_TO_DEPTH", "DEPTH_TO_SPACE"})
_FEWEST = 24  # columns of planes to or from blocks: shorter rows cost more than transposes


@dataclass(frozen=True)
class ByPlanes:
    """Resize or pool planes, each as an image of one channel; move blocks of them.

    Before: `x[1,64,8,8] -> TRANSPOSE -> RESIZE_NEAREST_NEIGHBOR -> TRANSPOSE -> y[1,64,16,16]`.
    After: `x -> RESHAPE [64,8,8,1] -> RESIZE_NEAREST_NEIGHBOR -> RESHAPE -> y`. An image that lies
    with channels last is transposed before it grows instead of after. Pooling is taken between two
    transposes, by the kernel whose registers hold neighbouring pixels.

    Before: `x[1,3,8,8] -> TRANSPOSE -> SPACE_TO_DEPTH -> TRANSPOSE -> y[1,12,4,4]`.
    After: `x -> RESHAPE [1,3,4,2,4,2] -> TRANSPOSE [1,2,2,3,4,4] -> RESHAPE -> y`.
    """

    name = "by-planes"
    contract = Contract(
        grows=dict.fromkeys(("operators", "bytes_moved"), "views of what is read and made count")
    )
    needs = frozenset({_RESIZE}) | _POOLING | _BLOCKS

    def run(self, graph: Graph) -> bool:
        """Rewrite every such operator that only a transpose to planes reads."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "TRANSPOSE" and permutation(op) == _TO_PLANES:
                _rewrite(op, rewriter)
        return rewriter.finish()


def _rewrite(transpose: Op, rewriter: Rewriter) -> None:
    image = operand(transpose, 0)
    own = rewriter.producer(image)
    if own is None or own.kind not in ByPlanes.needs or not rewriter.is_private(image):
        return
    source = operand(own, 0)
    ahead = rewriter.producer(source)
    if ahead is not None and (ahead.kind, permutation(ahead)) != ("TRANSPOSE", _TO_PIXELS):
        ahead = None
    if own.kind == _RESIZE:
        _resize(ahead, own, transpose, rewriter)
    elif ahead is not None and rewriter.is_private(source):
        rewrite = _block if own.kind in _BLOCKS else _pool
        rewrite(ahead, own, transpose, rewriter)


def _resize(ahead: Op | None, own: Op, behind: Op, rewriter: Rewriter) -> None:
    """Resizing between two transposes, or before one."""
    source, parts = operand(own, 0), Parts(own)
    if ahead is not None:
        gone = [ahead] if rewriter.is_private(source) else []
        rewriter.replace([*gone, own, behind], *_by_planes(operand(ahead, 0), own, behind))
    elif source.elements <= operand(behind, 0).elements:
        planes = _of_sizes(source, [source.static_shape[axis] for axis in _TO_PLANES])
        order = parts.constant(np.array(_TO_PLANES, np.int32))
        parts.make("TRANSPOSE", [source, order], None, planes)
        rewriter.replace([own, behind], *parts.ops, *_by_planes(planes, own, behind))


def _pool(ahead: Op, own: Op, behind: Op, rewriter: Rewriter) -> None:
    first, made, last = _by_planes(operand(ahead, 0), own, behind)
    if has_pixel_lanes(made):
        rewriter.replace([ahead, own, behind], first, made, last)


def _by_planes(planes: Tensor, own: Op, behind: Op) -> tuple[Op, Op, Op]:
    """A view of planes as images of one channel, the op over them, and a view as planes."""
    result, (batch, channels, *sizes) = behind.outputs[0], planes.static_shape
    pictures = _of_sizes(planes, (batch * channels, *sizes, 1))
    resized = _of_sizes(result, (batch * channels, *result.static_shape[2:], 1))
    first, last = Parts(own), Parts(behind)
    first.reshape(planes, pictures.static_shape, pictures)
    last.reshape(resized, result.static_shape, result)
    made = replace(own, inputs=[pictures, *own.inputs[1:]], outputs=[resized])
    return first.ops[0], made, last.ops[0]


def _block(ahead: Op, own: Op, behind: Op, rewriter: Rewriter) -> None:
    planes, result, side = operand(ahead, 0), behind.outputs[0], block_size(own)
    batch, channels, height, width = planes.static_shape
    if min(width, result.static_shape[3]) < _FEWEST:
        return
    if own.kind == "SPACE_TO_DEPTH":
        sizes = [batch, channels, height // side, side, width // side, side]
        order = [0, 3, 5, 1, 2, 4]
    else:
        sizes = [batch, side, side, channels // side**2, height, width]
        order = [0, 3, 4, 1, 5, 2]
    parts = Parts(own)
    blocks, turned = _of_sizes(planes, sizes), _of_sizes(result, [sizes[axis] for axis in order])
    parts.reshape(planes, sizes, blocks)
    parts.make("TRANSPOSE", [blocks, parts.constant(np.array(order, np.int32))], None, turned)
    parts.reshape(turned, result.static_shape, result)
    rewriter.replace([ahead, own, behind], *parts.ops)


def _of_sizes(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    made = tensor.like(f"{tensor.name} in planes")
    made.shape, made.default_shape, made.dim_names = tuple(sizes), None, ()
    return made
