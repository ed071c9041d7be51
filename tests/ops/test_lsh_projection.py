from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.farmhash import fingerprints
from circlet.ops.lsh_projection import LshProjectionAttrs
from tests.strings import litert_results

# Of FarmHash's own Fingerprint64.
KNOWN = {
    b"": 0x9AE16A3B2F90404F,
    b"a": 12917804110809363939,
    b"hello": 13009744463427800296,
}


def network(dtype: DType, shape: tuple[int, ...], kind: str, weighted: bool) -> bytes:
    b = builder()
    x = b.input("x", dtype, shape)
    inputs = [b.constant("seeds", np.random.default_rng(3).normal(size=(3, 7)).astype("f4")), x]
    if weighted:
        inputs.append(b.input("weights", DType.FLOAT32, shape[:1]))
    attrs = LshProjectionAttrs(kind)
    return dumps(b.output(b.op("LSH_PROJECTION", inputs, attrs, name="y")).model(), "tflite")


@pytest.mark.parametrize("text", KNOWN)
def test_fingerprints_are_those_of_farmhash(text: bytes) -> None:
    keys = np.frombuffer(text, np.uint8)[None]
    assert fingerprints(keys).tolist() == [KNOWN[text]]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", ["SPARSE", "DENSE"])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 12, 13, 28, 29, 60, 61, 124, 300])
def test_bits_are_those_of_litert(size: int, kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(size)
    given = [rng.integers(0, 256, (5, size), np.uint8)]
    content = network(DType.UINT8, (5, size), kind, weighted)
    if weighted:
        given.append(rng.normal(size=5).astype(np.float32))
    (result,) = Session(content).run(given).values()
    (wanted,) = litert_results(content, given)
    np.testing.assert_array_equal(result, wanted)


def test_strings_are_hashed_as_they_lie_in_memory() -> None:
    content = network(DType.STRING, (3,), "SPARSE", False)
    given = np.array([b"one", b"", b"three"], object)
    (result,) = Session(content).run([given]).values()
    (wanted,) = litert_results(content, [given])
    np.testing.assert_array_equal(result, wanted)


def test_a_projection_of_no_type_is_refused() -> None:
    with pytest.raises(GraphError, match="SPARSE or DENSE"):
        Session(network(DType.INT32, (3,), "UNKNOWN", False))
