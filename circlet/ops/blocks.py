"""Ops that trade places of an image for batches or channels, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops.checks import at_least, rank_is
from circlet.ops.layout import pad_value
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    QUANTISED,
    infer_ranked,
    known_ints,
    limits,
    operand,
    present,
    when_ranked,
)
from circlet.ops.slicing import ints


@dataclass(frozen=True)
class Blocks:
    """Block sizes and (before, after) padding or cropping of each spatial axis."""

    sizes: tuple[int, ...]
    amounts: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Places of a block."""
        return int(np.prod(self.sizes, dtype=np.int64))


def blocks_of(op: Op) -> Blocks | None:
    """The blocks of a SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND; None until a run."""
    sizes, amounts = known_ints(op.input(1)), known_ints(op.input(2))
    return None if sizes is None or amounts is None else _blocks(sizes, amounts)


def _blocks(sizes: tuple[int, ...], amounts: tuple[int, ...]) -> Blocks | None:
    valid = len(amounts) == 2 * len(sizes) and all(0 < size < 1 << 16 for size in sizes)
    if not valid or any(not 0 <= amount < 1 << 31 for amount in amounts):
        return None
    return Blocks(sizes, tuple(zip(amounts[::2], amounts[1::2], strict=True)))


def _to_batch(shape: Shape, blocks: Blocks) -> Shape | None:
    """Sizes of the result of SPACE_TO_BATCH_ND; None where they do not divide."""
    rows = zip(shape[1:-1], blocks.sizes, blocks.amounts, strict=True)
    spatial = [None if n is None else (n + sum(pad), block) for n, block, pad in rows]
    if any(pair is not None and pair[0] % pair[1] for pair in spatial):
        return None
    batch = None if shape[0] is None else shape[0] * blocks.count
    return (batch, *(None if pair is None else pair[0] // pair[1] for pair in spatial), shape[-1])


def _to_space(shape: Shape, blocks: Blocks) -> Shape | None:
    """Sizes of the result of BATCH_TO_SPACE_ND; None where they do not fit."""
    rows = zip(shape[1:-1], blocks.sizes, blocks.amounts, strict=True)
    spatial = [None if n is None else n * block - sum(crop) for n, block, crop in rows]
    if any(size is not None and size < 0 for size in spatial):
        return None
    if shape[0] is not None and shape[0] % blocks.count:
        return None
    batch = None if shape[0] is None else shape[0] // blocks.count
    return (batch, *spatial, shape[-1])


def _result(op: Op, shape: Shape, blocks: Blocks) -> Shape | None:
    if len(shape) not in (3, 4) or len(blocks.sizes) != len(shape) - 2:
        return None
    change = _to_batch if op.kind == "SPACE_TO_BATCH_ND" else _to_space
    return change(shape, blocks)


def _infer_blocks(op: Op) -> list[TensorType]:
    data, blocks = operand(op, 0), blocks_of(op)
    shape = None if blocks is None else _result(op, data.shape, blocks)
    return [TensorType(data.dtype, shape or (*(None,) * (len(data.shape) - 1), data.shape[-1]))]


def _blocks_fit(op: Op) -> bool:
    if any(known_ints(op.input(index)) is None for index in (1, 2)):
        return len(operand(op, 0).shape) in (3, 4)
    blocks = blocks_of(op)
    return blocks is not None and _result(op, operand(op, 0).shape, blocks) is not None


def _fill_storable(op: Op) -> bool:
    dtype = op.outputs[0].dtype
    low, high = limits(dtype) if dtype in QUANTISED else (0, 0)
    return low <= pad_value(op) <= high


def _evaluated_blocks(
    op: Op, inputs: Arrays, shape: tuple[int, ...]
) -> tuple[Blocks, tuple[int, ...]]:
    blocks = _blocks(tuple(ints(inputs[1])), tuple(ints(inputs[2])))
    result = None if blocks is None else _result(op, shape, blocks)
    if blocks is None or result is None:
        why = f"blocks {ints(inputs[1])}, amounts {ints(inputs[2])}, data {list(shape)}"
        raise GraphError(f"{op.label}'s operands do not fit", where=op.name, why=why)
    return blocks, tuple(size or 0 for size in result)


def _evaluate_to_batch(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data = present(inputs[0])
    blocks, shape = _evaluated_blocks(op, inputs, data.shape)
    amounts = [(0, 0), *blocks.amounts, (0, 0)]
    padded = np.pad(data, amounts, constant_values=pad_value(op))
    inner = [
        part for n, block in zip(shape[1:-1], blocks.sizes, strict=True) for part in (n, block)
    ]
    split = padded.reshape([data.shape[0], *inner, data.shape[-1]])
    spatial = range(len(blocks.sizes))
    order = [*(2 + 2 * i for i in spatial), 0, *(1 + 2 * i for i in spatial), split.ndim - 1]
    return [split.transpose(order).reshape(shape)]


def _evaluate_to_space(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data = present(inputs[0])
    blocks, shape = _evaluated_blocks(op, inputs, data.shape)
    n = len(blocks.sizes)
    split = data.reshape([*blocks.sizes, shape[0], *data.shape[1:]])
    order = [n, *(axis for i in range(n) for axis in (n + 1 + i, i)), split.ndim - 1]
    grown = [size * block for size, block in zip(data.shape[1:-1], blocks.sizes, strict=True)]
    whole = split.transpose(order).reshape([shape[0], *grown, data.shape[-1]])
    kept = zip(blocks.amounts, grown, strict=True)
    cut = (slice(first, size - last) for (first, last), size in kept)
    return [whole[(slice(None), *cut)].copy()]


def _register_blocks(kind: str, evaluate: object) -> None:
    register(
        OpDef(
            kind=kind,
            arity=(3, 3),
            required=3,
            dtypes=tuple(
                f"{name} INT32 INT32 -> {name}"
                for name in ("FLOAT32", "UINT8", "INT8", "INT16", "INT32", "INT64")
            ),
            infer=infer_ranked(_infer_blocks),
            evaluate=evaluate,  # type: ignore[arg-type]
            rules=(
                Rule("zero-point", _fill_storable, "the zero point must be a value of the type"),
                when_ranked("blocks", _blocks_fit, "blocks must divide 3- or 4-D data evenly"),
            ),
            quant=QuantRule(same_as_input=True),
        )
    )


_register_blocks("SPACE_TO_BATCH_ND", _evaluate_to_batch)
_register_blocks("BATCH_TO_SPACE_ND", _evaluate_to_space)


@dataclass(frozen=True)
class DepthAttrs:
    """Side of the square block that a pixel's channels hold."""

    block_size: int = 0


def block_size(op: Op) -> int:
    """Side of the block of a SPACE_TO_DEPTH or DEPTH_TO_SPACE."""
    return op.attributes(DepthAttrs).block_size


def _times(size: int | None, factor: int) -> int | None:
    return None if size is None else size * factor


def _over(size: int | None, factor: int) -> int | None:
    return None if size is None else size // factor


def _infer_to_depth(op: Op) -> list[TensorType]:
    data, side = operand(op, 0), block_size(op)
    n, height, width, channels = data.shape
    shape = (n, _over(height, side), _over(width, side), _times(channels, side * side))
    return [TensorType(data.dtype, shape)]


def _infer_from_depth(op: Op) -> list[TensorType]:
    data, side = operand(op, 0), block_size(op)
    n, height, width, channels = data.shape
    shape = (n, _times(height, side), _times(width, side), _over(channels, side * side))
    return [TensorType(data.dtype, shape)]


def _divides(op: Op) -> bool:
    _, height, width, channels = operand(op, 0).shape
    side = block_size(op)
    if op.kind == "DEPTH_TO_SPACE":
        return channels is None or channels % (side * side) == 0
    return all(size is None or size % side == 0 for size in (height, width))


def _image(op: Op, inputs: Arrays) -> np.ndarray:
    data = present(inputs[0])
    if data.ndim != 4:
        raise GraphError(f"{op.label} needs an image, not {data.shape}", where=op.name)
    return data


def _evaluate_to_depth(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, side = _image(op, inputs), block_size(op)
    n, height, width, channels = data.shape
    if height % side or width % side:
        raise GraphError(f"blocks of {side} do not divide {data.shape}", where=op.name)
    split = data.reshape(n, height // side, side, width // side, side, channels)
    shape = (n, height // side, width // side, side * side * channels)
    return [split.transpose(0, 1, 3, 2, 4, 5).reshape(shape)]


def _evaluate_from_depth(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, side = _image(op, inputs), block_size(op)
    n, height, width, channels = data.shape
    if channels % (side * side):
        raise GraphError(f"blocks of {side} do not divide {data.shape}", where=op.name)
    depth = channels // (side * side)
    split = data.reshape(n, height, width, side, side, depth)
    return [split.transpose(0, 1, 3, 2, 4, 5).reshape(n, height * side, width * side, depth)]


_DEPTH_RULES = (
    at_least(("block_size",), 1),
    when_ranked("image", rank_is(0, 4, "image").holds, "the image must have 4 dimensions"),
    when_ranked("divides", _divides, "blocks must divide the image or its channels evenly"),
)

register(
    OpDef(
        kind="SPACE_TO_DEPTH",
        attrs=DepthAttrs,
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=infer_ranked(_infer_to_depth),
        evaluate=_evaluate_to_depth,
        rules=_DEPTH_RULES,
        quant=QuantRule(same_as_input=True),
    )
)

register(
    OpDef(
        kind="DEPTH_TO_SPACE",
        attrs=DepthAttrs,
        arity=(1, 1),
        dtypes=("* -> *",),
        infer=infer_ranked(_infer_from_depth),
        evaluate=_evaluate_from_depth,
        rules=_DEPTH_RULES,
        quant=QuantRule(same_as_input=True),
    )
)
