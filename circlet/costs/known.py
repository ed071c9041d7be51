"""What is known of one backend at one number of threads, ready to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from circlet.costs.calibration import Calibration, Line, bounded, calibrated, net_ns
from circlet.costs.database import Database
from circlet.costs.estimate import Estimate
from circlet.costs.exec_time import ExecTime, Record
from circlet.costs.fit import Fits, Sample
from circlet.costs.rows import WITHIN, Row, Whole
from circlet.costs.signature import Signature


@dataclass(frozen=True)
class Known:
    """Measurements of a context.

    Attributes:
        rows: By key, the one that counts: within a network before alone.
        border: What a partition costs, and each byte that goes in or out, on one thread.
        wholes: Networks that ran with this backend as the first choice.
        has_border: Whether the border was measured.
        imported: Times of another tool.
    """

    rows: dict[str, Row]
    border: Line
    wholes: tuple[Whole, ...]
    has_border: bool
    imported: ExecTime

    @staticmethod
    def read(database: Database, context: int, backend: str, on_one: int) -> Known:
        """What the database holds of a context, and of borders in the one of a single thread."""
        rows: dict[str, Row] = {}
        measured = database.operators(context)
        for row in measured:
            if row.way == WITHIN or row.signature.key not in rows:
                rows[row.signature.key] = row
        border = database.border(on_one)
        imported = ExecTime()
        for name, quantised, size, us in database.imported(context):
            imported.update(Record(backend, name, quantised, size, us))
        line = bounded(Line(*border), measured) if border else Line()
        wholes = tuple(database.networks(context))
        return Known(rows, line, wholes, border is not None, imported)

    @cached_property
    def calibration(self) -> Calibration:
        """What makes its single operators into networks."""
        return calibrated(self.wholes, self.rows, self.border)

    @cached_property
    def fits(self) -> Fits:
        """Predictions for what was not measured, as it would be in a network."""
        samples = (Sample(row.signature, self._ns(row, row.ns)) for row in self.rows.values())
        return Fits.of(samples)

    def measured(self, signature: Signature) -> Estimate | None:
        """The measured time of an operator in a network; None where it was not measured."""
        row = self.rows.get(signature.key)
        if row is None:
            return None
        ns, low, high = (self._ns(row, ns) for ns in (row.ns, row.low, row.high))
        return Estimate(ns, low, high, measured=True)

    def predicted(self, signature: Signature) -> Estimate | None:
        """The time of an operator by others; None where nothing was measured."""
        found = self.fits.predict(signature)
        return None if found is None else found.estimate

    def _ns(self, row: Row, ns: float) -> float:
        changed = net_ns(row._replace(ns=ns), self.border)
        return changed if row.way == WITHIN else changed * self.calibration.factor
