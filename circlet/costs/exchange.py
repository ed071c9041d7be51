"""Costs to and from ONE's exec_time.json."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.registry import backend_names
from circlet.costs.exec_time import ExecTime, Record
from circlet.costs.model import Costs
from circlet.placement.one_operations import one_name

_THREADS = 1  # ONE's file says nothing of threads; transfers are measured on one


def exported(costs: Costs, backends: Sequence[str], threads: int) -> ExecTime:
    """All that was measured on some backends, each entry the mean of what it stands for.

    ONE counts the bytes of a transfer twice: as they are read, and as they are written.
    """
    found: dict[tuple[str, str, bool, int], list[float]] = {}
    for backend in backends:
        known = costs.known(backend, threads)
        for row in known.rows.values():
            signature, measured = row.signature, known.measured(row.signature)
            assert measured is not None
            key = backend, one_name(signature.label), signature.has_bytes, signature.bytes
            found.setdefault(key, []).append(measured.ns)
        for reader in backends:
            contexts = costs.context(backend, _THREADS), costs.context(reader, _THREADS)
            for size, _ in costs.database.transfers(*contexts):
                ns = costs.transfer_ns(int(size), backend, reader)
                found.setdefault((backend, reader, False, 2 * int(size)), []).append(ns)
    times = ExecTime()
    for (backend, name, quantised, size), values in found.items():
        us = max(1, round(sum(values) / len(values) / 1e3))
        times.put(Record(backend, name, quantised, size, us))
    return times


def import_times(costs: Costs, times: ExecTime, threads: int) -> tuple[int, tuple[str, ...]]:
    """Keep times of another tool, for what nothing measured here tells.

    Returns:
        How many were kept, and the backends that are not installed here, whose times were not.
    """
    installed = set(backend_names())
    rows: dict[str, list[tuple[str, bool, int, int]]] = {}
    for record in times.records():
        rows.setdefault(record.backend, []).append(record[1:])
    known = {name: own for name, own in rows.items() if name in installed}
    for backend, own in known.items():
        for count in {_THREADS, threads}:
            costs.database.add_imported(costs.context(backend, count), own)
    costs.changed()
    return sum(map(len, known.values())), tuple(sorted(rows.keys() - installed))
