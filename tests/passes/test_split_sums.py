from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder


def total(count: int) -> bytes:
    """The sum of so many inputs [4]."""
    b = builder()
    terms = [b.input(f"x{index}", DType.FLOAT32, (4,)) for index in range(count)]
    return dumps(b.output(b.op("ADD_N", terms, name="total")).model(), "tflite")


@pytest.mark.parametrize("count", [2, 8, 9, 15, 16, 400])
def test_many_terms_are_added_natively_and_in_order(count: int) -> None:
    terms = list(np.random.default_rng(0).normal(0, 1e3, (count, 4)).astype(np.float32))
    session = Session(total(count), backends=("cpu",), cache=False)
    (wanted,) = Session(total(count), backends=("reference",), level="O0").run(terms).values()
    np.testing.assert_array_equal(session.run(terms)["total"], wanted)
    assert {row["source"] for row in session.placement} == {"total"}
