"""What crosses between the partitions of different backends, and between them and the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from circlet.ir import Graph, Tensor
from circlet.plan.partition import Partition

CALLER = "caller"
HOST = "host"


@dataclass(frozen=True)
class Home:
    """Where the values of a backend's partitions lie.

    Attributes:
        memory: The kinds of memory that they may lie in, the preferred one first.
        copies: Whether what comes from host memory, and goes there, is copied.
    """

    memory: tuple[str, ...] = (HOST,)
    copies: bool = False


@dataclass(frozen=True)
class Transfer:
    """A value that one backend hands to another, or that the caller gives or takes.

    Attributes:
        tensor: The name of the value.
        writer, reader: The backends, or "caller".
        bytes: Its size; None where it depends on the data of a run.
        source, target: The kinds of memory that it goes from and to.
        is_copied: Whether it is copied; values in memory that both share are not.
    """

    tensor: str
    writer: str
    reader: str
    bytes: int | None
    source: str = HOST
    target: str = HOST
    is_copied: bool = False


def transfers(
    graph: Graph, partitions: Sequence[Partition], homes: Mapping[str, Home]
) -> Iterator[Transfer]:
    """The transfers of a plan in the order of a run, each value once for each backend it goes to.

    What the caller gives and takes is told where it is copied.

    Args:
        homes: Where values lie, by the names of backends.
    """
    writers: dict[Tensor, str] = dict.fromkeys(graph.inputs, CALLER)
    there: set[tuple[Tensor, str]] = set()
    known = {**homes, CALLER: Home()}
    for part in partitions:
        for tensor in part.inputs:
            writer = writers.get(tensor, part.backend)
            if writer != part.backend and (tensor, part.backend) not in there:
                there.add((tensor, part.backend))
                yield from _told(tensor, writer, part.backend, known)
        writers.update(dict.fromkeys(part.outputs, part.backend))
    for tensor in graph.outputs:
        yield from _told(tensor, writers[tensor], CALLER, known)


def _told(
    tensor: Tensor, writer: str, reader: str, homes: Mapping[str, Home]
) -> Iterator[Transfer]:
    source, target = homes[writer], homes[reader]
    shared = [kind for kind in source.memory if kind in target.memory]
    is_copied = not shared or (shared == [HOST] and (source.copies or target.copies))
    if is_copied or CALLER not in (writer, reader):
        size = None if None in tensor.shape else tensor.size_bytes
        places = (shared[0],) * 2 if shared else (source.memory[0], target.memory[0])
        yield Transfer(tensor.name, writer, reader, size, *places, is_copied)
