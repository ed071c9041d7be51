"""A profile as JSON, and its operators as CSV."""

from __future__ import annotations

import csv
import io
import json
import math

from circlet.profiling.result import OperatorRow, Profile

BETWEEN = "between kernels"
_COLUMNS = (
    *("id", "name", "kind", "us", "min_us", "max_us", "share", "macs", "gops", "gbs"),
    *("data_bytes", "weights_bytes", "output_bytes", "roof", "bound", "backend"),
    *("kernels", "fused_with", "why"),
)


def as_json(profile: Profile) -> str:
    """All that is known, as JSON."""
    return json.dumps(_finite(profile.as_json()), indent=1, allow_nan=False) + "\n"


def as_csv(profile: Profile) -> str:
    """A row for each source operator, for each transfer and for the time between kernels.

    Lists are joined by ';'.
    Their times add up to that of the whole run.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(_cells, profile.operators))
    copied = [(row.title, row.us) for row in profile.transfers]
    for name, us in (*copied, (BETWEEN, profile.between_us)):
        share = us / max(profile.whole_us, 1e-9)
        rest = {"name": name, "us": f"{us:.3f}", "share": f"{share:.6f}"}
        writer.writerow(rest.get(column, "") for column in _COLUMNS)
    return text.getvalue()


def _cells(row: OperatorRow) -> list[str]:
    least, most = row.range_us
    return [
        *(str(row.id), row.name, row.kind, f"{row.us:.3f}", f"{least:.3f}", f"{most:.3f}"),
        *(f"{row.share:.6f}", str(row.macs), f"{row.gops:.3f}", f"{row.gbs:.3f}"),
        *(str(row.data_bytes), str(row.weights_bytes), str(row.output_bytes)),
        *("" if row.roof is None else f"{row.roof:.4f}", row.bound, row.backend),
        *(";".join(row.kernels), ";".join(row.fused_with), row.why),
    ]


def _finite(data: object) -> object:
    """The data with None for not-a-number and infinities, which JSON does not know."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
