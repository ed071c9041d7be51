"""Views between operators of another backend go there, and the table says why."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.ir import DType
from circlet.ops.build import builder
from tests.runtime.networks import tflite

X = np.linspace(-1, 1, 12, dtype=np.float32)


def chain(*kinds: str) -> bytes:
    """Operators in a chain over "x" [12]; V is a RESHAPE to other sizes each time."""
    b = builder()
    t = b.input("x", DType.FLOAT32, (12,))
    sizes = [(3, 4), (2, 6), (12, 1)]
    for index, kind in enumerate(kinds):
        if kind == "V":
            shape = sizes[index % len(sizes)]
            values = b.constant(f"shape{index}", np.array(shape, np.int32))
            t = b.op("RESHAPE", [t, values], name=f"view{index}")
        else:
            t = b.op(kind, [t], name=f"{kind}{index}")
    return tflite(b.output(t))


def placed(source: bytes, **more: object) -> list[str]:
    rules = {"TANH": "reference"}
    given = {"backend_of": rules, "backends": ["cpu", "reference"], "level": "O0", **more}
    session = Session(source, cache=False, **given)  # type: ignore[arg-type]
    wanted = Session(source, backends=["reference"], cache=False).run([X])
    for name, got in session.run([X]).items():
        np.testing.assert_allclose(got, wanted[name], rtol=1e-6)
    return [str(row["backend"]) for row in session.placement]


@pytest.mark.parametrize(
    ("kinds", "backends"),
    [
        (("TANH", "V", "TANH"), ["reference"] * 3),
        (("TANH", "V", "V", "TANH"), ["reference"] * 4),
        (("TANH", "V", "RELU"), ["reference", "cpu", "cpu"]),
        (("RELU", "V", "TANH"), ["cpu", "cpu", "reference"]),
        (("TANH", "RELU", "TANH"), ["reference", "cpu", "reference"]),
    ],
)
def test_views_go_where_all_that_makes_and_reads_them_is(
    kinds: tuple[str, ...], backends: list[str]
) -> None:
    assert placed(chain(*kinds)) == backends


def test_the_table_says_why_and_rules_and_strictness_go_first() -> None:
    source = chain("TANH", "V", "TANH")
    rules = {"TANH": "reference"}
    session = Session(source, backend_of=rules, cache=False, level="O0")
    refused = str(session.placement[1]["refused"])
    assert "cpu" in refused and "copied twice" in refused
    assert placed(source, backend_of={**rules, "RESHAPE": "cpu"})[1] == "cpu"
    assert placed(source, strict=True)[1] == "cpu"
