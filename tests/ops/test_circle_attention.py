"""ATTENTION of Circle files: one token at a time, with caches that live on."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError, UnsupportedOpsError
from circlet.formats import dumps
from circlet.ir import DType, Graph, RawAttrs
from circlet.ops.build import builder
from circlet.ops.verify import verify

HEADS, DEPTH, PLACES = 4, 8, 40
WIDTH = HEADS * DEPTH


def weights() -> list[np.ndarray]:
    """The four projections."""
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(WIDTH, WIDTH)) / 4).astype(np.float32) for _ in range(4)]


def network(covered: int = PLACES, variable: bool = True) -> Graph:
    """One ATTENTION whose caches are variables."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 1, WIDTH))
    cosine, sine = (b.input(name, DType.FLOAT32, (1, 1, DEPTH)) for name in ("cos", "sin"))
    mask = b.input("mask", DType.FLOAT32, (1, 1, 1, covered))
    position = b.input("position", DType.INT64, (1,))
    held = [b.constant(f"w{n}", values) for n, values in enumerate(weights())]
    make = b.variable if variable else b.input
    caches = [make(name, DType.FLOAT32, (1, PLACES, HEADS, DEPTH)) for name in ("k", "v")]
    inputs = [x, *held, cosine, sine, mask, *caches, position]
    return b.output(b.op("ATTENTION", inputs, name="y")).build()


def session(covered: int, backend: str, level: str = "O2") -> Session:
    """A .circle file of the network."""
    b = builder()
    b.graph = network(covered)
    return Session(dumps(b.model(), "circle"), backends=(backend,), cache=False, level=level)


def turned(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Pairs of halves as complex numbers, turned."""
    half = DEPTH // 2
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


def attention(tokens: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Causal attention over all tokens at once."""
    q, k, v, o = (w.astype(np.float64) for w in weights())
    split = (len(tokens), HEADS, DEPTH)
    query, key = (turned((tokens @ w.T).reshape(split), angles[:, None]) for w in (q, k))
    value = (tokens @ v.T).reshape(split)
    scores = np.einsum("qhd,khd->hqk", query, key) / DEPTH**0.5
    scores[:, ~np.tril(np.ones((len(tokens),) * 2, bool))] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    seen = np.einsum("hqk,khd->qhd", shares, value).reshape(len(tokens), -1)
    made: np.ndarray = seen @ o.T
    return made


@pytest.mark.parametrize("covered", [32, PLACES])
@pytest.mark.parametrize(
    ("backend", "level"), [("reference", "O0"), ("reference", "O2"), ("cpu", "O0"), ("cpu", "O2")]
)
def test_tokens_one_by_one_are_attention_over_all(backend: str, level: str, covered: int) -> None:
    rng, count = np.random.default_rng(1), 5
    tokens = rng.normal(size=(count, WIDTH)).astype(np.float32)
    angles = np.arange(count)[:, None] * np.geomspace(1, 0.1, DEPTH // 2)
    own, got = session(covered, backend, level), []
    for at in range(count):
        mask = np.where(np.arange(covered) <= at, 0, -np.inf).astype(np.float32)
        tables = [np.tile(f(angles[at]), 2).astype(np.float32) for f in (np.cos, np.sin)]
        given = {
            "x": tokens[at].reshape(1, 1, -1),
            "cos": tables[0].reshape(1, 1, -1),
            "sin": tables[1].reshape(1, 1, -1),
            "mask": mask.reshape(1, 1, 1, -1),
            "position": np.array([at], np.int64),
        }
        got.append(own.run(given)["y"].reshape(-1))
    np.testing.assert_allclose(np.stack(got), attention(tokens, angles), atol=1e-5)
    assert {row["backend"] for row in own.placement} == {backend}


@pytest.mark.parametrize("position", [-3, PLACES])
def test_a_position_outside_is_taken_to_the_nearest_place(position: int) -> None:
    rng = np.random.default_rng(2)
    shapes = {"x": (1, 1, WIDTH), "cos": (1, 1, DEPTH), "sin": (1, 1, DEPTH)}
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    given["mask"] = np.zeros((1, 1, 1, PLACES), np.float32)
    results = [
        session(PLACES, backend, "O0").run({**given, "position": np.array([at], np.int64)})["y"]
        for backend in ("reference", "cpu")
        for at in (position, 0 if position < 0 else PLACES - 1)
    ]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], atol=1e-5)


def test_caches_that_are_inputs_are_refused() -> None:
    with pytest.raises(GraphError, match="caches must be variables"):
        verify(network(variable=False))


def test_a_mask_longer_than_the_cache_is_refused() -> None:
    with pytest.raises(GraphError, match="one token, square weights"):
        verify(network(PLACES + 1))


def test_a_model_that_runs_another_file_is_refused_with_its_reason() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (4,))
    attrs = RawAttrs("RunModelOptions", {"location": "other.circle"})
    y = b.op("RUN_MODEL", [x], attrs, name="y", shape=(4,))
    with pytest.raises(UnsupportedOpsError, match="a session is one file"):
        Session(dumps(b.output(y).model(), "circle"), cache=False)
