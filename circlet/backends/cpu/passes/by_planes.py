"""Images that lie with channels first are resized and pooled plane by plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.backends.cpu.pixel_lanes import has_pixel_lanes
from circlet.ir import Graph, Op, Tensor
from circlet.ops.decomposition import Parts
from circlet.ops.layout import permutation
from circlet.ops.operands import operand
from circlet.passes import Contract, Rewriter

_TO_PLANES, _TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
_RESIZE = "RESIZE_NEAREST_NEIGHBOR"
_POOLING = frozenset({"AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"})


@dataclass(frozen=True)
class ByPlanes:
    """Resize or pool the planes of an image, each as an image of one channel.

    Before: `x[1,64,8,8] -> TRANSPOSE -> RESIZE_NEAREST_NEIGHBOR -> TRANSPOSE -> y[1,64,16,16]`.
    After: `x -> RESHAPE [64,8,8,1] -> RESIZE_NEAREST_NEIGHBOR -> RESHAPE -> y`. An image that lies
    with channels last is transposed before it grows instead of after. Pooling is taken between two
    transposes, by the kernel whose registers hold neighbouring pixels.
    """

    name = "by-planes"
    contract = Contract(
        grows=dict.fromkeys(("operators", "bytes_moved"), "views of what is read and made count")
    )
    needs = frozenset({_RESIZE, *_POOLING})

    def run(self, graph: Graph) -> bool:
        """Rewrite every resizing that only a transpose reads, and pooling between transposes."""
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
    source, result = operand(own, 0), transpose.outputs[0]
    ahead, behind = Parts(own), Parts(transpose)
    maker = rewriter.producer(source)
    gone: list[Op] = []
    if maker is not None and maker.kind == "TRANSPOSE" and permutation(maker) == _TO_PIXELS:
        planes, gone = operand(maker, 0), [maker] if rewriter.is_private(source) else []
    elif own.kind != _RESIZE or source.elements > image.elements:
        return
    else:
        planes = _of_sizes(source, [source.static_shape[axis] for axis in _TO_PLANES])
        order = ahead.constant(np.array(_TO_PLANES, np.int32))
        ahead.make("TRANSPOSE", [source, order], None, planes)
    batch, channels, height, width = planes.static_shape
    pictures = _of_sizes(planes, (batch * channels, height, width, 1))
    made_pictures = _of_sizes(result, (batch * channels, *result.static_shape[2:], 1))
    ahead.reshape(planes, pictures.static_shape, pictures)
    behind.reshape(made_pictures, result.static_shape, result)
    made = replace(own, inputs=[pictures, *own.inputs[1:]], outputs=[made_pictures])
    if own.kind != _RESIZE and not has_pixel_lanes(made):
        return
    rewriter.replace([*gone, own, transpose], *ahead.ops, made, *behind.ops)


def _of_sizes(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    made = tensor.like(f"{tensor.name} in planes")
    made.shape, made.default_shape, made.dim_names = tuple(sizes), None, ()
    return made
