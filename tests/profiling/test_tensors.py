"""Intermediate tensors: the session's own kernels make them, and its outputs stay bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.build import builder
from circlet.profiling.tensors import intermediates
from circlet.sample import Sample


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("network", ["int8", "float"])
def test_looking_changes_no_bit(network: str, threads: int) -> None:
    sample = Sample(network)
    session = Session(sample.model_path, threads=threads)
    image = [sample.image()]
    plain = session.run(image)
    names = ["features", "conv", "probabilities"]
    found = intermediates(session, image, names)
    assert list(found) == names and {one.level for one in found.values()} == {"O2"}
    np.testing.assert_array_equal(found["probabilities"].array, plain["probabilities"])
    for name, array in session.run(image).items():
        np.testing.assert_array_equal(array, plain[name])
    numpy = Session(sample.model_path, backends=["reference"], level="O0")
    wanted = intermediates(numpy, image, ["features"])["features"]
    bar = 1e-5 if network == "float" else 0
    np.testing.assert_allclose(found["features"].array, wanted.array, rtol=0, atol=bar)


def test_what_a_fused_kernel_never_stores_is_made_without_fusion() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 64))
    y = b.op("ADD", [x, x], AddAttrs(), name="twice")
    model = b.output(b.op("ADD", [y, x], AddAttrs(), name="thrice")).model()
    session = Session(dumps(model, "tflite"), threads=1)
    ones = np.ones((1, 64), np.float32)
    found = intermediates(session, [ones], ["twice", "thrice"])
    assert (found["twice"].level, found["thrice"].level) == ("O0", "O2")
    np.testing.assert_array_equal(found["twice"].array, 2 * ones)


def test_names_that_nobody_makes_are_refused() -> None:
    sample = Sample("int8")
    session = Session(sample.model_path, threads=1)
    with pytest.raises(InputError, match="pointwise"):
        intermediates(session, [sample.image()], ["pointwize"])
