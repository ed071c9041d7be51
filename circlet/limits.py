"""Every limit that bounds time and memory on untrusted input, in one place."""

from __future__ import annotations

from circlet.errors import LimitError
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
        subgraphs, ops, tensors: Counts over a whole file; `ops` bounds also what a run goes through
            where graphs are called again and again, each turn of a loop once.
        rank: Dimensions of one tensor.
        tensor_bytes: Size of one tensor, at its default shape.
        memory_bytes: Memory for all that grows from one file: constants unpacked, folded and
            packed, working memory, inputs, outputs, and what numpy needs besides.
        memory_per_file_byte: What each byte of the file adds to `memory_bytes`.
        partitions: Parts of a network that backends run in turn; what comes behind the last goes to
            the last backend as a whole.
        kernels: Distinct kernels that are compiled for a network; what needs further ones goes to
            another backend.
        call_depth: Nesting of graphs by IF, WHILE, CALL and the like.
        run_work: Elementary operations of one run, as the records of operators count them:
            multiply-accumulates, comparisons, bytes moved. What depends on no input is done once
            for all runs, and may be as many.
        run_work_per_file_byte: What each byte of the file allows besides.
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
    memory_bytes: int = 768 * _MIB
    memory_per_file_byte: int = 8
    partitions: int = 64
    kernels: int = 256
    call_depth: int = 32
    run_work: int = 2 * 10**10
    run_work_per_file_byte: int = 10**5
    loop_turns: int = 10_000_000
    run_seconds: float | None = None

    def check_file(self, size: int, where: str = "") -> None:
        """LimitError where a file has more bytes than it may."""
        if size > self.file_bytes:
            raise LimitError(
                "the file is too big",
                where=where,
                why=f"{size} bytes, the limit is {self.file_bytes}",
                fix="raise `file_bytes` of circlet.limits.Limits if this is meant",
            )

    def visited_bytes(self, file_bytes: int) -> int:
        """Bytes that reading a file of this size may visit."""
        return self.visits_per_byte * file_bytes + 64 * _KIB

    def allowed_work(self, file_bytes: int) -> int:
        """Elementary operations that one run of a network from a file of this size may do."""
        return self.run_work + self.run_work_per_file_byte * file_bytes

    def memory_budget(self, file_bytes: int) -> MemoryBudget:
        """What may be taken for a network of a file of this size."""
        return MemoryBudget(self.memory_bytes + self.memory_per_file_byte * file_bytes, file_bytes)

    def with_memory(self, left_bytes: int) -> Limits:
        """These limits for a part of a network, to which so much of its memory is left."""
        return self._replace(memory_bytes=left_bytes, memory_per_file_byte=0)


class MemoryBudget:
    """What may be taken for one network, and what is taken; who takes memory charges it first.

    Attributes:
        allowed: The most that may be taken, in bytes.
        file_bytes: Size of the file that all of it grows from.
        taken: What is taken now.
        unpacked: What of the file's bytes has not come to be packed yet.
    """

    __slots__ = ("allowed", "file_bytes", "taken", "unpacked")

    def __init__(self, allowed: int, file_bytes: int = 0) -> None:
        self.allowed, self.file_bytes = allowed, file_bytes
        self.taken, self.unpacked = 0, file_bytes

    @property
    def left(self) -> int:
        """What may still be taken."""
        return self.allowed - self.taken

    def charge(self, size_bytes: int, where: str, what: str) -> None:
        """Take memory for `what` of the operator or tensor `where`.

        Raises:
            LimitError: So much is not left; nothing is taken.
        """
        if size_bytes > self.left:
            raise LimitError(
                "the network needs more memory than allowed",
                where=where,
                why=f"{what}: {size_bytes} bytes; of {self.allowed} are {self.taken} taken already",
                fix="raise `memory_bytes` of circlet.limits.Limits, or --max-memory, if meant",
            )
        self.taken += size_bytes

    def charge_packed(self, size_bytes: int, where: str) -> None:
        """Take memory for constants as kernels read them, and for their place in the artifact.

        As many bytes as the file has are free, for the file holds them already.
        """
        grown = max(0, size_bytes - self.unpacked)
        self.charge(2 * grown, where, "its constants as kernels read them")
        self.unpacked -= size_bytes - grown

    def release(self, size_bytes: int) -> None:
        """Give back what was charged."""
        self.taken -= size_bytes

    def copy(self) -> MemoryBudget:
        """A budget of which as much is taken, for one of several uses of what is there already."""
        twin = MemoryBudget(self.allowed, self.file_bytes)
        twin.taken, twin.unpacked = self.taken, self.unpacked
        return twin


DEFAULT_LIMITS = Limits()
