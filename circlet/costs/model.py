"""What operators, transfers and partitions cost on this machine."""

from __future__ import annotations

from typing import Self
from weakref import WeakKeyDictionary

from circlet.artifact.cache import generator_identity
from circlet.artifact.digest import digest
from circlet.backends.base import CompileJob, PartitionCompiler
from circlet.backends.registry import find_backend
from circlet.config import Config
from circlet.costs.calibration import Line, fitted_line
from circlet.costs.database import Database
from circlet.costs.estimate import Estimate
from circlet.costs.exec_time import UNSUPPORTED
from circlet.costs.known import Known
from circlet.costs.machine import machine_fingerprint
from circlet.costs.rows import Context
from circlet.costs.signature import Signature, signature_of
from circlet.costs.steps import EVERY_STEP, Steps
from circlet.errors import InputError, PlacementError
from circlet.ir import Op
from circlet.options import DEFAULT_LEVEL, DEFAULT_OPTIONS, DEFAULT_PRECISION, Options
from circlet.placement.interface import Reason
from circlet.placement.one_operations import one_name
from circlet.target.targets import parse_targets

HOST = "host"
"""Stands for the caller, who gives inputs and takes outputs, among those that hand on values."""

_IMPORTED_RATIO = 2.0  # by which times of another tool may miss
_THREADS_RATIO = 1.5  # by which times at another number of threads may, for each doubling


def open_costs(
    options: Options = DEFAULT_OPTIONS, config: Config | None = None, steps: Steps = EVERY_STEP
) -> Costs:
    """The costs that are kept in the folder of the cache; a context manager that closes them.

    Args:
        options: Level, precision and target that networks are compiled with.
        config: Where the folder is; else the environment says so.
        steps: What may be done where something is measured.

    Raises:
        CacheError: The database cannot be used.
    """
    return Costs(Database.of_cache(config), options, steps)


class Costs:
    """Costs on this machine, by this version, under these options: measured, or else predicted.

    Rows of other machines, of other versions of Circlet, of a backend's engine or compiler, and of
    other options are never used.

    Args:
        database: Where measurements are kept.
        options: Level, precision and target that networks are compiled with.
        steps: What may be done where something is measured, and backends are asked.

    Attributes:
        database: The same.
        options: The same.
        steps: The same.
    """

    def __init__(
        self, database: Database, options: Options = DEFAULT_OPTIONS, steps: Steps = EVERY_STEP
    ) -> None:
        self.database, self.options, self.steps = database, options, steps
        self._known: dict[tuple[str, int], Known] = {}
        self._contexts: dict[tuple[str, int], int] = {}
        self._compilers: dict[str, PartitionCompiler] = {}
        self._refusals: dict[tuple[str, str], str] = {}
        self._lines: dict[tuple[str, str], Line] = {}
        self._signatures: WeakKeyDictionary[Op, Signature] = WeakKeyDictionary()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def operator_ns(self, op: Op, backend: str, threads: int) -> Estimate:
        """The time of an op in a partition of a backend, without the partition's own cost.

        Raises:
            PlacementError: The backend does not take the op.
            InputError: Nothing was measured on the backend, or there is none of that name.
        """
        signature = self.signature(op)
        known = self.known(backend, threads)
        found = known.measured(signature)
        if found is not None:
            return found
        refusal = self.refusal(op, backend)
        if refusal:
            raise PlacementError.moved(backend, [(op.name, op.label, refusal)])
        return (
            known.predicted(signature)
            or self._at_other_threads(signature, backend, threads)
            or _imported(signature, backend, known)
            or _unknown(backend)
        )

    def operator_bytes(self, op: Op, backend: str, threads: int) -> int:
        """What an op holds in memory beyond activations.

        As the backend said when it was measured: packed weights, tables, and the scratch memory of
        all threads. Else, and for engines that do not say, the bytes of its constants: no less.
        """
        signature = self.signature(op)
        row = self.known(backend, threads).rows.get(signature.key)
        return int(signature.features.weight_bytes) if row is None else row.held

    def transfer_ns(self, size: int, writer: str, reader: str) -> float:
        """The time of handing `size` bytes from one backend to another, or to or from `HOST`.

        As measured between the two, else as both say of themselves.
        """
        return 0.0 if writer == reader else self.transfer_line(writer, reader).at(size)

    def partition_ns(self, backend: str) -> float:
        """What one partition more of a backend costs a run beside its operators.

        As measured at the fewest threads, else as the backend says of itself.
        """
        known = self.known(backend, min(self._measured_threads(backend), default=1))
        if known.has_border or known.wholes:
            return known.calibration.partition_ns
        return find_backend(backend).describe().transfer_latency_ns

    def transfer_line(self, writer: str, reader: str) -> Line:
        """The cost of transfers between two different backends."""
        pair = (writer, reader)
        if pair not in self._lines:
            self._lines[pair] = self._measured_line(*pair)
        return self._lines[pair]

    def signature(self, op: Op) -> Signature:
        """What the cost of an op depends on."""
        found = self._signatures.get(op)
        if found is None:
            found = self._signatures[op] = signature_of(op)
        return found

    def known(self, backend: str, threads: int) -> Known:
        """What was measured on a backend."""
        if (backend, threads) not in self._known:
            numbers = self.context(backend, threads), self.context(backend, 1)
            found = Known.read(self.database, numbers[0], backend, numbers[1])
            self._known[backend, threads] = found
        return self._known[backend, threads]

    def context(self, backend: str, threads: int) -> int:
        """The number under which the database keeps measurements of a backend."""
        if (backend, threads) not in self._contexts:
            wanted = self._context(backend, threads)
            self._contexts[backend, threads] = self.database.context(wanted)
        return self._contexts[backend, threads]

    def changed(self) -> None:
        """Read the database anew: something was measured, imported or forgotten."""
        self._known.clear()
        self._contexts.clear()
        self._lines.clear()

    def compiler(self, backend: str) -> PartitionCompiler:
        """A backend at work under these options."""
        if backend not in self._compilers:
            options = self.options._replace(backends=(backend,), strict=False, backend_of=())
            job = CompileJob(options, parse_targets(options.target))
            self._compilers[backend] = find_backend(backend).compiler(job)
        return self._compilers[backend]

    def refusal(self, op: Op, backend: str) -> str:
        """Why a backend does not take an op, or ""."""
        key = backend, self.signature(op).key
        if key not in self._refusals:
            self._refusals[key] = self.steps.why_lost(*key) or self._asked(op, *key)
        return self._refusals[key]

    def _asked(self, op: Op, backend: str, key: str) -> str:
        self.steps.begins("asking", backend, key)
        answer = self.compiler(backend).supports(op)
        return answer.text if isinstance(answer, Reason) else ""

    def _context(self, backend: str, threads: int) -> Context:
        options = self.options
        texts = (options.level or DEFAULT_LEVEL, options.precision or DEFAULT_PRECISION)
        engine = find_backend(backend).toolchain()
        versions = digest(f"{generator_identity()} {engine}".encode()).hex()
        asked = " ".join((*texts, options.target))
        return Context(machine_fingerprint(), versions, backend, asked, threads)

    def _measured_threads(self, backend: str) -> dict[int, int]:
        return self.database.known_threads(self._context(backend, 1))

    def _at_other_threads(
        self, signature: Signature, backend: str, threads: int
    ) -> Estimate | None:
        """The time at the nearest number of threads that was measured."""
        others = sorted(self._measured_threads(backend), key=lambda n: abs(n - threads))
        for other in others:
            known = self.known(backend, other)
            found = known.measured(signature) or known.predicted(signature)
            if found is not None:
                ratio = _THREADS_RATIO ** max(1.0, abs(other - threads) / min(other, threads))
                return Estimate(found.ns, found.low / ratio, found.high * ratio)
        return None

    def _measured_line(self, writer: str, reader: str) -> Line:
        if HOST in (writer, reader):
            border = self.known(reader if writer == HOST else writer, 1).border
            return Line(0.0, border.ns_per_byte)
        contexts = self.context(writer, 1), self.context(reader, 1)
        rows = self.database.transfers(*contexts)
        if rows:
            return fitted_line(rows)
        imported = self.known(writer, 1).imported.records()
        rows = [(r.size / 2, 1e3 * r.us) for r in imported if r.name == reader]
        if rows:
            return fitted_line(rows)
        infos = [find_backend(name).describe() for name in (writer, reader)]
        return Line(
            sum(info.transfer_latency_ns for info in infos),
            sum(1 / info.transfer_bytes_per_ns for info in infos),
        )


def _imported(signature: Signature, backend: str, known: Known) -> Estimate | None:
    name = one_name(signature.label)
    us = known.imported.lookup(backend, name, signature.has_bytes, signature.bytes)
    if us is None or us >= UNSUPPORTED:
        return None
    return Estimate(1e3 * us, 1e3 * us / _IMPORTED_RATIO, 1e3 * us * _IMPORTED_RATIO)


def _unknown(backend: str) -> Estimate:
    raise InputError(
        "nothing is known of what operators cost on a backend",
        where=backend,
        why="nothing was measured on it by this version on this machine",
        fix=f"circlet costs MODEL --backend {backend}",
    )
