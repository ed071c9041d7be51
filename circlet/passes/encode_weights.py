"""Weights that TFLite Micro decodes as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs
from circlet.ops.micro_decode import MICRO_DECODE
from circlet.ops.micro_forms import (
    HEAD_BYTES,
    LOOK_UP,
    MOST_BITS,
    ONE_TABLE,
    PRUNED,
    STORED,
    VERSION,
    BrokenFormError,
    channels_of,
    pruned_background,
)
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter

_NAMES = 3  # those of the constants and of what is decoded


class Encoded(NamedTuple):
    """What takes a constant's place: encoded bytes, and the head with what follows it."""

    elements: np.ndarray
    head: np.ndarray

    @property
    def nbytes(self) -> int:
        """All that is stored."""
        return self.elements.nbytes + self.head.nbytes


@dataclass(frozen=True)
class EncodeWeights:
    """Store weights of few values as places in a table, or without zeros, as TFLite Micro does.

    Before: `CONV_2D(x, w)`. After: `CONV_2D(x, TFLM_DECODE(places in a table, the table))`.
    Elements stay bit for bit what they are, and weights that would not get smaller stay. TFLite
    Micro decodes them right before each layer, Circlet when it compiles; LiteRT has no such
    operator.

    Attributes:
        least_saved: Bytes that it has to save for each layer, beside those of the operator itself.
    """

    name = "encode-weights"
    contract = Contract(
        native_only="only TFLite Micro runs such files, and takes longer",
        grows=dict.fromkeys(("operators", "bytes_moved"), "weights are decoded before each layer"),
    )
    needs = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
    least_saved: int = 512

    def run(self, graph: Graph) -> bool:
        """Encode what only layers read as their weights."""
        rewriter = Rewriter(graph)
        found: dict[Tensor, tuple[Tensor, Tensor] | None] = {}
        for op in rewriter.ops():
            weights = op.input(1) if op.kind in self.needs else None
            if weights is None:
                continue
            if weights not in found:
                found[weights] = self._stored(weights, rewriter)
            if (stored := found[weights]) is not None:
                _decode_before(op, weights, stored, rewriter)
        return rewriter.finish()

    def _stored(self, weights: Tensor, rewriter: Rewriter) -> tuple[Tensor, Tensor] | None:
        """The constants that stand for weights; None where they are better stored as they are."""
        if weights.data is None or weights.sparsity is not None or weights.dtype not in STORED:
            return None
        readers = rewriter.readers(weights)
        if weights in rewriter.boundary or not all(
            self._only_weighs(op, weights) for op in readers
        ):
            return None
        best = min(_forms(weights), key=lambda form: form.nbytes, default=None)
        needed = (self.least_saved + _NAMES * len(weights.name)) * len(readers)
        if best is None or weights.size_bytes - best.nbytes < needed:
            return None
        return (
            constant(weights.name, best.elements, dtype=DType.UINT8),
            constant(f"{weights.name}_ancillary", best.head, dtype=DType.UINT8),
        )

    def _only_weighs(self, op: Op, weights: Tensor) -> bool:
        places = [place for place, tensor in enumerate(op.inputs) if tensor is weights]
        return op.kind in self.needs and places == [1]


def _decode_before(
    op: Op, weights: Tensor, stored: tuple[Tensor, Tensor], rewriter: Rewriter
) -> None:
    """Have a layer read what is decoded right before it, for as long as that lives."""
    made = weights.like(f"{weights.name}_decoded")
    if made.quant is not None and not made.quant.is_per_channel:
        made.quant = replace(made.quant, axis=0)
    decode = Op("CUSTOM", [*stored], [made], NoAttrs(), op.origin, custom_code=MICRO_DECODE)
    layer = replace(op, inputs=[made if t is weights else t for t in op.inputs])
    rewriter.replace([op], decode, layer)


def _forms(weights: Tensor) -> Iterator[Encoded]:
    """The forms that can say some weights."""
    try:
        channels = channels_of(weights)
        yield from filter(None, [_as_places(weights, channels.number, channels.is_last)])
        yield _pruned(weights)
    except BrokenFormError:
        return


def _as_places(weights: Tensor, count: int, is_last: bool) -> Encoded | None:
    """Places in a table of each channel; None where a table would be too long."""
    raw = _as_integers(weights)
    rows = raw.reshape(-1, count).T if is_last else raw.reshape(count, -1)
    found = [np.unique(row, return_inverse=True) for row in rows]
    length = max((values.size for values, _ in found), default=0)
    bits = max(1, (length - 1).bit_length())
    if not length or bits > MOST_BITS:
        return None
    places = np.stack([inverse.reshape(-1) for _, inverse in found]).astype(np.uint8)
    tables = np.stack([np.pad(values, (0, length - values.size)) for values, _ in found])
    ordered = (places.T if is_last else places).reshape(-1, 1)
    single = np.unpackbits(ordered, axis=1)[:, -bits:]
    axis = ONE_TABLE if count == 1 else (len(weights.shape) - 1) * is_last
    return Encoded(np.packbits(single), _head(LOOK_UP, tables, axis << 4 | bits, length))


def _pruned(weights: Tensor) -> Encoded:
    """A bit for each element that is not its channel's zero point, and these elements."""
    raw, background = _as_integers(weights), pruned_background(weights)
    kept = raw != background.reshape(-1).view(raw.dtype)
    return Encoded(np.packbits(kept), _head(PRUNED, raw[kept]))


def _as_integers(weights: Tensor) -> np.ndarray:
    """The elements by their bits, which tell zeros of either sign apart."""
    assert weights.data is not None
    flat = np.ascontiguousarray(weights.data).reshape(-1)
    return flat.view(f"u{flat.dtype.itemsize}")


def _head(form: int, values: np.ndarray, *parameters: int) -> np.ndarray:
    head = np.zeros(HEAD_BYTES, np.uint8)
    head[[0, 1, 4]] = form, VERSION, VERSION
    head[5 : 5 + len(parameters)] = parameters
    return np.concatenate([head, np.ascontiguousarray(values).reshape(-1).view(np.uint8)])
