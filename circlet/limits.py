"""Every limit that bounds time and memory on untrusted input, in one place."""

from __future__ import annotations

from circlet.struct import Struct

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


class Limits(Struct):
    """Bounds that reading, planning and running keep; passing one raises `LimitError`.

    Attributes:
        file_bytes: Size of a model file.
        tables: Tables of one file that are visited.
        vector_elements: Elements of one vector, raw weight bytes excepted.
        visits_per_byte: How many times over the file's bytes may be visited, so that a small file
            of many offsets to one place cannot unfold into much work.
        string_bytes: Length of one name or text.
        subgraphs, ops, tensors: Counts over a whole file.
        rank: Dimensions of one tensor.
        tensor_bytes: Size of one tensor, at its default shape.
        arena_bytes: Memory for all computed tensors of a run.
        partitions: Parts of a network that backends run in turn; what comes behind the last goes to
            the last backend as a whole.
        kernels: Distinct kernels that are compiled for a network; what needs further ones goes to
            another backend.
        call_depth: Nesting of graphs by IF, WHILE, CALL and the like.
        op_macs: Multiply-accumulates of one operator; a run can be stopped only between operators.
        loop_turns: Turns of all loops of one run.
        run_seconds: Wall time of one run; None for no bound.
    """

    file_bytes: int = 16 * _GIB
    tables: int = 400_000
    vector_elements: int = 64 * _MIB
    visits_per_byte: int = 2
    string_bytes: int = _MIB
    subgraphs: int = 10_000
    ops: int = 100_000
    tensors: int = 200_000
    rank: int = 32
    tensor_bytes: int = 2 * _GIB
    arena_bytes: int = 4 * _GIB
    partitions: int = 64
    kernels: int = 256
    call_depth: int = 32
    op_macs: int = 10**13
    loop_turns: int = 10_000_000
    run_seconds: float | None = None

    def visited_bytes(self, file_bytes: int) -> int:
        """Bytes that reading a file of this size may visit."""
        return self.visits_per_byte * file_bytes + 64 * _KIB


DEFAULT_LIMITS = Limits()
