"""Writes the pages that are made from code: errors, supported operators, kernels, the limits.

    python tools/make_docs.py [--check]

With --check nothing is written, and the exit code is 1 if a page is not current.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from circlet import errors
from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.control import is_control
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.backends.cpu.tuning.variant import Numerics, Variant
from circlet.backends.cpu.tuning.variants import VARIANTS
from circlet.errors import CircletError
from circlet.ir import Op, Origin
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops import OpDef, all_records
from circlet.ops.left_out import LEFT_OUT

DOCS = Path(__file__).parents[1] / "docs"
MADE = "Made by `python tools/make_docs.py`; a test checks that it is current."
ERRORS_HEAD = f"""# Errors

{MADE}

Everything that Circlet raises on purpose is a `circlet.CircletError` with a stable code and four
parts: `what` went wrong, `where` (your name of the operator, tensor, file or option), `why`, and
how to `fix` it. The commands print them on standard error and exit with 1; with `--json` they
print `{{"error": {{"code": ..., "what": ..., ...}}}}`.

| code | class | meaning | what to do |
|---|---|---|---|"""
OPERATORS_HEAD = f"""# Supported operators

{MADE}

{{count}} kinds have a record and run in numpy; {{native}} of them also have native code.

- *types*: the element types of the inputs and of the first output. `T` stands for each of the
  types behind the colon, `*` for any type, `_` for an omitted input; inputs beyond those named
  may have any type.
- *native*: the rows of the lowering table, in the order in which they are asked. A row may refuse
  an operator, for its types or sizes; `circlet run --placement` says which and why, and the
  operator then runs in numpy.
- *numerics*: `exact` results are those of LiteRT's reference kernels bit for bit in all integer
  forms; float forms, and all forms of `tolerance`, are within the bars of
  [exactness.md](exactness.md).

| kind | types | native | numerics |
|---|---|---|---|"""
LEFT_OUT_HEAD = """## What stays out

| kind | why |
|---|---|"""
KERNELS_HEAD = f"""# Kernels

{MADE}

Every C function that a plan may call, from `circlet/backends/cpu/tuning/variants.py`. Integer
results are exact in all of them; the class says how float results relate to those of the records:

| class | what it means | bound of single operators |
|---|---|---|
{{classes}}

- *knobs*: what the lowering chooses by predicted time, or `circlet compile --tune` by measuring
  ([tuning.md](tuning.md)): a `tile` held in registers, how many pixels to `fold` into one, the
  `method` of a convolution.
- *measured by*: the network of the public corpora whose plan has it; `python -m bench kernels`
  times the calls of one row there.

How 8-bit products are made, by what a machine has; `python -m bench explain` shows it in the
arguments of kernels:

| machine | `conv_q8` | `depthwise_q8` |
|---|---|---|
| AVX-512 VNNI, AVX-VNNI, Arm's dot products | dot products of four bytes \
| the same, four taps of a channel |
| Arm's i8mm (`CONV_Q8_MATRIX`) | products of matrices of 2 x 8 by 8 x 2 bytes; \
rows of one pixel by dot products | as above |
| AVX2 and AVX-512 without VNNI | by layer, what is predicted to take the least time: bytes, \
four products added in 16 bits where weights allow it and the excess apart (`CONV_Q8_PAIRS`), as a \
sparse matrix where there are many channels (`CONV_Q8_SPARSE`), or int16, widened once for each \
tile (`CONV_Q8_WIDE`); windows of short rows are gathered to one \
run (`CONV_Q8_GATHER`) | AVX2: `depthwise_pairs_q8`, two taps added in 16 bits, sizes of weights \
times activations with their signs; AVX-512, large windows and hybrid ones: two taps of every \
other row added in 16 bits, where what exceeds that is rare; else int16 weights, even and odd taps |
| 64-bit Arm before dot products | bytes, two products added in 16 bits where no weight is -128; \
short rows are gathered | int16 weights, tap by tap |
| others | int16, of even and of odd bytes; short rows are gathered | as above; SSE2: even and odd \
taps |

| kernel | header | computes | class | knobs | needs | test | measured by |
|---|---|---|---|---|---|---|---|"""
CLASSES = {
    Numerics.EXACT: "bit for bit those of the records",
    Numerics.ELEMENT: "each element by itself, by functions with stated error bounds",
    Numerics.ORDERED: "sums in one order: the same bits for every tile of every such kernel",
    Numerics.LANES: "sums by the lanes of a vector: the same bits on one target",
    Numerics.WINOGRAD: "products of transformed values, fewer and less accurate",
    Numerics.BF16: "operands rounded to bfloat16, only where that is asked for",
}
LIMITS_BEGIN, LIMITS_END = "<!-- limits: begin -->", "<!-- limits: end -->"
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def errors_page() -> str:
    """All error codes: what each means and what to do."""
    rows = [
        f"| `{kind.code}` | `{kind.__name__}` | {' | '.join(explained(kind))} |"
        for kind in error_classes()
    ]
    return "\n".join([ERRORS_HEAD, *rows, ""])


def error_classes() -> Iterator[type[CircletError]]:
    """The classes of the hierarchy in the order of the source, the base left out."""
    for item in vars(errors).values():
        if inspect.isclass(item) and issubclass(item, CircletError) and item is not CircletError:
            yield item


def explained(kind: type[CircletError]) -> tuple[str, str]:
    """The two paragraphs of an error's docstring: its meaning and the remedy."""
    meaning, _, action = (inspect.getdoc(kind) or "").partition("\n\n")
    return cell(meaning), cell(action)


def operators_page() -> str:
    """All operator kinds: types, native code, how results compare with LiteRT."""
    records = list(all_records())
    native = sum(has_native_code(record) for record in records)
    rows = [
        f"| {record.kind} | {'<br>'.join(grouped_forms(record.dtypes))} | {native_text(record)} "
        f"| {record.numerics} |"
        for record in records
    ]
    head = OPERATORS_HEAD.format(count=len(records), native=native)
    return "\n".join([head, *rows, "", LEFT_OUT_HEAD, *left_out_rows(), ""])


def left_out_rows() -> list[str]:
    """The kinds without a record, each with the reason."""
    return [f"| {kind} | {cell(reason)} |" for kind, reason in sorted(LEFT_OUT.items())]


def grouped_forms(forms: tuple[str, ...]) -> list[str]:
    """Forms that differ only in the type of the first input, as one."""
    groups: dict[str, list[str]] = {}
    for form in forms:
        groups.setdefault(_pattern(form), []).append(form)
    return [_group_text(pattern, alike) for pattern, alike in groups.items()]


def _pattern(form: str) -> str:
    """A form with T in place of its first type, wherever that occurs."""
    first, *_ = words = form.split()
    return form if first in ("*", "->") else " ".join("T" if w == first else w for w in words)


def _group_text(pattern: str, forms: list[str]) -> str:
    if len(forms) == 1:
        return f"`{forms[0]}`"
    types = dict.fromkeys(form.split()[0] for form in forms)
    return f"`{pattern}`: {', '.join(types)}"


def has_native_code(record: OpDef) -> bool:
    """Whether any lowering, or the compiler itself, takes operators of the kind."""
    return record.kind in LOWERINGS.rows or is_decomposed(record) or runs_as_jumps(record.kind)


def is_decomposed(record: OpDef) -> bool:
    """Whether a kind without rows of its own runs natively as the ops that express it."""
    return record.decompose is not None and record.kind not in LOWERINGS.rows


def runs_as_jumps(kind: str) -> bool:
    """Whether the compiler expands a kind into jumps between steps."""
    return is_control(Op(kind, [], [], None, Origin.of(0, kind)))


def native_text(record: OpDef) -> str:
    """Names of the rows that run a kind natively."""
    if runs_as_jumps(record.kind):
        return "jumps"
    if is_decomposed(record):
        return "by other operators"
    return ", ".join(row.name for row in LOWERINGS.rows.get(record.kind, ())) or "no"


def kernels_page() -> str:
    """The table of kernel variants."""
    classes = [f"| {c.label} | {text} | {c.bound:g} |" for c, text in CLASSES.items()]
    rows = [
        f"| `{row.name}` | `{row.header}` | {row.computes} | {row.numerics.label} "
        f"| {', '.join(row.knobs)} | {needs(row)} | `tests/{row.test}` | {row.network or 'none'} |"
        for row in VARIANTS.values()
    ]
    return "\n".join([KERNELS_HEAD.format(classes="\n".join(classes)), *rows, ""])


def needs(row: Variant) -> str:
    """What beyond any target a variant needs, as it is written for `--target`."""
    usual = Variant._field_defaults["target"]
    return "" if row.target == usual else f"`{row.target.rpartition('+')[2]}`"


def limits_table() -> str:
    """The defaults of all limits with what they bound."""
    described = dict(limit_descriptions())
    lines = ["| limit | default | what it bounds |", "|---|---|---|"]
    for name, bound in DEFAULT_LIMITS._asdict().items():
        lines.append(f"| `{name}` | {amount(name, bound)} | {described[name]} |")
    return "\n".join(lines)


def limit_descriptions() -> Iterator[tuple[str, str]]:
    """Name and description of each limit, from the docstring of `Limits`."""
    text = (inspect.getdoc(Limits) or "").partition("Attributes:\n")[2]
    entries: list[str] = []
    for line in text.splitlines():
        if line.startswith("        "):
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    for entry in entries:
        names, _, description = entry.partition(": ")
        yield from ((name.strip(), cell(description)) for name in names.split(","))


def amount(name: str, value: float | None) -> str:
    """A default for people."""
    if value is None:
        return "none"
    if name.endswith("_bytes"):
        unit, size = next(pair for pair in _UNITS if value >= pair[1])
        return f"{value / size:g} {unit}"
    return f"{value:,}"


def cell(text: str) -> str:
    """Text that fits a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def pages() -> dict[Path, str]:
    """Every page that is made, with its text."""
    security = DOCS / "security.md"
    before, _, rest = security.read_text(encoding="utf-8").partition(LIMITS_BEGIN)
    after = rest.partition(LIMITS_END)[2]
    return {
        DOCS / "errors.md": errors_page(),
        DOCS / "supported-ops.md": operators_page(),
        DOCS / "kernels.md": kernels_page(),
        security: f"{before}{LIMITS_BEGIN}\n{limits_table()}\n{LIMITS_END}{after}",
    }


def is_current(path: Path, text: str) -> bool:
    """Whether a page says what it should."""
    return path.exists() and path.read_text(encoding="utf-8") == text


def main() -> int:
    """Write the pages that are not current, or name them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = {path: text for path, text in pages().items() if not is_current(path, text)}
    for path, text in stale.items():
        sys.stdout.write(f"{path.name}: {'not current' if check else 'written'}\n")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
