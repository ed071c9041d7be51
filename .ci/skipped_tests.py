"""Prints the test files in which a run skipped tests for a reason, of its JUnit report."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def main(report: str, reason: str) -> None:
    """Print one file a line; fail where nothing was skipped, which cannot be right."""
    found = set()
    for case in ET.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None and reason in (skipped.get("message") or ""):
            found.add(file_of(case.get("classname") or case.get("name") or ""))
    if not found:
        sys.exit(f"{report}: nothing was skipped because of {reason!r}")
    sys.stdout.write("".join(f"{path}\n" for path in sorted(found)))


def file_of(dotted: str) -> Path:
    """The file of a test's dotted name, which may end in a class."""
    path = Path(*dotted.split("."))
    for candidate in (path, *path.parents):
        if candidate.with_suffix(".py").is_file():
            return candidate.with_suffix(".py")
    sys.exit(f"no file holds {dotted}")


if __name__ == "__main__":
    main(*sys.argv[1:])
