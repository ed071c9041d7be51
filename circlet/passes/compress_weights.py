"""Weights that .circle files hold as Huffman codes."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.formats.huffman import ask_for_codes, is_compressed
from circlet.ir import DType, Graph, Tensor

_TYPES = (DType.INT8, DType.UINT8)


@dataclass(frozen=True)
class CompressWeights:
    """Have .circle files hold 8-bit filters of convolutions as ONE's Huffman codes.

    Before: `CONV_2D(x, w)`, whose file holds w as it is. After: the same network; a .circle file
    holds the codes of w where they take less, and other formats hold w. ONE's runtime for
    microcontrollers decodes them row by row, Circlet when it reads the file.

    Attributes:
        kinds: Operators whose second operand is compressed; ONE's runtime knows CONV_2D alone.
    """

    name = "compress-weights"
    needs = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})
    kinds: tuple[str, ...] = ("CONV_2D",)

    def run(self, graph: Graph) -> bool:
        """Mark every filter that no operator of another kind reads."""
        chosen = frozenset(self.kinds) & self.needs
        filters = [op.inputs[1] for op in graph.ops if op.kind in chosen]
        others = {
            tensor
            for op in graph.ops
            for place, tensor in enumerate(op.inputs)
            if op.kind not in chosen or place != 1
        }
        found = [t for t in dict.fromkeys(filters) if t is not None and t not in others]
        marked = [_mark(tensor) for tensor in found if tensor not in graph.outputs]
        return any(marked)


def _mark(tensor: Tensor) -> bool:
    is_stored_plainly = not is_compressed(tensor) and tensor.sparsity is None
    if tensor.data is None or tensor.dtype not in _TYPES or not is_stored_plainly:
        return False
    ask_for_codes(tensor)
    return True
