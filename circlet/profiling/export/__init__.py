"""Profiles in the forms that other tools read; each is a function from a profile to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from circlet.profiling.export.one import one_markdown, snpe_json
from circlet.profiling.export.speedscope import speedscope
from circlet.profiling.export.tables import as_csv, as_json
from circlet.profiling.export.trace import chrome_trace
from circlet.profiling.result import Profile

FORMATS: Mapping[str, Callable[[Profile], str]] = {
    "markdown": one_markdown,
    "csv": as_csv,
    "json": as_json,
    "snpe": snpe_json,
    "speedscope": speedscope,
    "trace": chrome_trace,
}

__all__ = ["FORMATS", "chrome_trace"]
