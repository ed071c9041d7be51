"""Which inputs and outputs of a native partition a run fills how far, as an artifact holds it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from circlet.ir import Tensor
from circlet.plan.partition import Partition


def bounded_ports(partition: Partition) -> Iterator[Tensor]:
    """What stands for the inputs and outputs of a partition whose sizes a run decides."""
    ports = partition.ports
    if ports is None:
        return
    for tensors, sizes in ((ports.inputs, ports.input_sizes), (ports.outputs, ports.output_sizes)):
        yield from (t for t, own in zip(tensors, sizes, strict=False) if {*own} - {-1})


def ports_to_bytes(partition: Partition) -> bytes:
    """The ports of a partition; b"" where every size is fixed."""
    ports = partition.ports
    if ports is None:
        return b""
    fields = {
        "inputs": _rows(ports.inputs, ports.input_sizes),
        "outputs": _rows(ports.outputs, ports.output_sizes),
        "given": len(ports.inputs) - len(partition.inputs),
        "found": len(ports.outputs) - len(partition.outputs),
    }
    return json.dumps(fields).encode()


def _rows(tensors: Sequence[Tensor], sizes: Sequence[Sequence[int]]) -> list[list[object]]:
    """Type, sizes that there is room for, and the count of each axis."""
    rows: list[list[object]] = []
    for tensor, counts in zip(tensors, sizes, strict=False):
        dtype = tensor.dtype.in_arrays
        assert dtype is not None
        rows.append([dtype.name, tensor.static_shape, counts])
    return rows
