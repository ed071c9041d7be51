"""What passes make of weights is made once for all sizes of a network, and lives as they do."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest

from circlet import Session
from circlet.backends.cpu import reuse_index
from circlet.backends.cpu.passes import flush_subnormals
from circlet.ir import DType, Model
from circlet.ir.builder import constant
from circlet.ops.arithmetic import MulAttrs
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.passes import fold_scales
from circlet.passes.derived import Derived

WEIGHTS = np.random.default_rng(5).uniform(-1, 1, (24, 16)).astype(np.float32)
SCALE = np.random.default_rng(6).uniform(0.5, 2, 24).astype(np.float32)


def scaled_product() -> Model:
    b = builder()
    weights, scale = b.constant("weights", WEIGHTS), b.constant("scale", SCALE)
    x = b.input("x", DType.FLOAT32, (1, 16))
    made = b.op("FULLY_CONNECTED", [x, weights, None], FullyConnectedAttrs(), name="product")
    return Model([b.output(b.op("MUL", [made, scale], MulAttrs(), name="scaled")).build()])


def test_a_third_size_makes_nothing_of_weights_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(module: object, name: str) -> None:
        kept = getattr(module, name)

        def call(*args: object, **options: object) -> object:
            made.append(name)
            return kept(*args, **options)

        monkeypatch.setattr(module, name, call)

    session = Session(scaled_product())
    session.resized({"x": (3, 16)})
    counted(fold_scales, "_scaled")
    counted(flush_subnormals, "_flushed")
    counted(reuse_index, "blake2b")
    third = session.resized({"x": (5, 16)})
    assert "_scaled" not in made and "_flushed" not in made
    x = np.random.default_rng(7).normal(0, 1, (5, 16)).astype(np.float32)
    np.testing.assert_allclose(
        third.run([x])["scaled"], x @ WEIGHTS.T * SCALE, rtol=1e-5, atol=1e-5
    )
    assert made.count("blake2b") == 1  # the description of the product; weights are not hashed


def test_it_is_kept_by_key_and_as_long_as_its_source() -> None:
    derived, source = Derived(), constant("weights", WEIGHTS)
    first = derived.of(source, "halved", lambda: constant("half", WEIGHTS / 2))
    assert derived.of(source, "halved", lambda: None) is first
    assert derived.of(source, "none", lambda: None) is None
    assert first is not None
    gone = ref(first)
    del first, source
    gc.collect()
    assert gone() is None
