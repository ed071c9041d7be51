"""What running cases gave, as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.nnapi.execute import Result


def summary(
    results: Sequence[Result], left_out: Mapping[str, str], backend: str, seconds: float
) -> str:
    """A table by operation, failures, cases left out, native share and the count."""
    lines = [*_table(results, backend), *_failures(results), *_reasons(results, backend)]
    lines += [f"LEFT OUT {name}: {why}" for name, why in sorted(left_out.items())]
    passed = sum(not result.reason for result in results)
    if backend != "reference":
        native = sum(map(_is_native, results))
        lines.append(f"native: {native} of {len(results)} cases ran without a step in numpy")
    lines.append(f"{backend}: {passed} of {len(results)} cases passed in {seconds:.0f} s")
    return "\n".join(lines)


def rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """One plain object for each case."""
    return [vars(result) for result in results]


def _is_native(result: Result) -> bool:
    return not result.reason and not result.refused


def _table(results: Sequence[Result], backend: str) -> Iterator[str]:
    by_kind: dict[str, list[Result]] = {}
    for result in results:
        for kind in result.kinds:
            by_kind.setdefault(kind, []).append(result)
    for kind, found in sorted(by_kind.items()):
        passed = sum(not result.reason for result in found)
        native = f"   native {sum(map(_is_native, found))}" if backend != "reference" else ""
        yield f"{kind:32} {passed} of {len(found)}{native}"


def _failures(results: Sequence[Result]) -> Iterator[str]:
    return (f"FAIL {result.case}: {result.reason}" for result in results if result.reason)


def _reasons(results: Sequence[Result], backend: str) -> Iterator[str]:
    """Why steps did not run natively, the most frequent reason first."""
    counts = Counter(reason for result in results for reason in set(result.refused))
    for reason, count in counts.most_common():
        yield f"NOT ON {backend} {count:5} cases: {reason}"
