"""The Signal library natively: run for run what the records give, state included."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.ir import DType
from circlet.ops.build import builder
from tests.corpora import corpus
from tests.ops.custom_op import outputs, session
from tests.ops.test_signal import NETWORKS, some

NUMPY_ONLY = ("float", "frames", "overlap", "delay", "stack")
NATIVE = [name for name in NETWORKS if not any(word in name for word in NUMPY_ONLY)]


@pytest.mark.parametrize("name", NATIVE)
def test_native_code_gives_what_records_give(name: str) -> None:
    graph = NETWORKS[name]
    native = session(graph, backends=["cpu"], strict=True)
    records = session(graph)
    for seed in range(12):
        arrays = some(graph, seed)
        pairs = zip(outputs(native, *arrays), outputs(records, *arrays), strict=True)
        for found, wanted in pairs:
            np.testing.assert_array_equal(found, wanted)
    native.reset()
    records.reset()
    arrays = some(graph, 99)
    np.testing.assert_array_equal(outputs(native, *arrays)[0], outputs(records, *arrays)[0])


def test_the_preprocessor_of_micro_speech_runs_natively_whole() -> None:
    path = corpus("models/audio_preprocessor_int8.tflite")
    native = Session(path, backends=["cpu"], strict=True)
    records = Session(path, backends=["reference"])
    random = np.random.default_rng(0)
    for _ in range(8):
        x = random.integers(-3000, 3000, (1, 480), np.int16)
        np.testing.assert_array_equal(outputs(native, x)[0], outputs(records, x)[0])


@pytest.mark.parametrize(("source", "result"), [("UINT32", "INT32"), ("INT16", "UINT16")])
def test_casts_between_types_of_one_width_keep_the_bits(source: str, result: str) -> None:
    b = builder()
    x = b.input("x", DType[source], (2, 3))
    y = b.op("CAST", [x], name="y", dtype=DType[result])
    opened = session(b.output(y).build(), backends=["cpu"], strict=True)
    given = np.array([[0, 1, -1], [-32768, 77, -2]], f"i{DType[source].bits // 8}")
    (found,) = outputs(opened, given.view(DType[source].numpy))
    np.testing.assert_array_equal(found.view(given.dtype), given)
    assert found.dtype == DType[result].numpy
