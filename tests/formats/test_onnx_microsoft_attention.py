"""com.microsoft's attentions, their masks and caches, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.backends.cpu.passes.fuse_attention import FuseAttention
from circlet.errors import UnsupportedOpsError
from circlet.ops.fused import FUSED_ATTENTION
from tests.formats.microsoft import (
    MICROSOFT,
    Array,
    Case,
    check,
    check_together,
    close,
    model,
    ours,
    theirs,
)

numpy_helper = pytest.importorskip("onnx", reason="the package onnx is not installed").numpy_helper
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

_RNG = np.random.default_rng(17)
GQA = "GroupQueryAttention"


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def whole(*values: int) -> Array:
    return np.array(values, np.int32)


X, W, BIAS, PAST = some(2, 4, 8), some(8, 24), some(24), some(2, 2, 2, 3, 4)
ROWS = np.array([[1, 1, 0, 0], [1, 1, 1, 0]], np.int32)
TABLE = _RNG.integers(0, 2, (2, 4, 4)).astype(np.int32)
_TWO, _FIXED = {"num_heads": 2}, [1, 2]
_FILTER: dict[str, Any] = {"mask_filter_value": -1.0}


def attention(*more: Array | None, present: bool = False, **attributes: Any) -> Case:
    outputs = [True, present]
    return Case("Attention", [X, W, BIAS, *more], {**_TWO, **attributes}, _FIXED, outputs)


WHOLE = {
    "plain": attention(),
    "of a scale": attention(scale=0.3),
    "causal": attention(unidirectional=1),
    "masked rows": attention(ROWS, **_FILTER),
    "masked rows, causal": attention(ROWS, unidirectional=1, **_FILTER),
    "ends": attention(whole(2, 3), **_FILTER),
    "ends and starts": attention(whole(3, 4, 1, 0), **_FILTER),
    "a mask for each query": attention(TABLE, unidirectional=1),
    "a cache": attention(None, PAST, present=True, unidirectional=1),
    "a cache and a mask": attention(
        np.array([[0, *[1] * 6], [1] * 7], np.int32), PAST, present=True, unidirectional=1
    ),
    "an empty cache": attention(None, PAST[:, :, :, :0], present=True, unidirectional=1),
    "a bias of scores": attention(None, None, some(1, 2, 4, 4)),
    "a bias of scores for all heads": attention(ROWS, None, some(2, 1, 4, 4), **_FILTER),
    "narrow values": Case(
        "Attention",
        [X, some(8, 22), some(22)],
        {**_TWO, "qkv_hidden_sizes": [8, 8, 6]},
        _FIXED,
    ),
    "no bias, computed weights": Case("Attention", [X, W], _TWO),
}

Q, K, V = some(2, 4, 8), some(2, 6, 8), some(2, 6, 6)
KEYS = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)


def heads(*inputs: Array | None, outputs: int = 1, **attributes: Any) -> Case:
    return Case("MultiHeadAttention", inputs, {**_TWO, **attributes}, outputs=[True] * outputs)


SPLIT = {
    "plain": heads(Q, K, V),
    "a bias": heads(Q, K, V, some(22)),
    "masked keys": heads(Q, K, V, None, KEYS, **_FILTER),
    "ends": heads(Q, K, V, None, whole(4, 6)),
    "causal, more keys": heads(Q, K, V, unidirectional=1),
    "a bias of scores": heads(Q, K, V, None, None, some(2, 2, 4, 6), scale=0.2),
    "keys as heads": heads(Q, some(2, 2, 6, 4), some(2, 2, 6, 4)),
    "a cache": heads(
        Q, Q, some(2, 4, 8), None, None, None, some(2, 2, 3, 4), some(2, 2, 3, 4), outputs=3
    ),
    "a causal cache": heads(
        Q,
        Q,
        some(2, 4, 8),
        None,
        None,
        None,
        some(2, 2, 3, 4),
        some(2, 2, 3, 4),
        outputs=3,
        unidirectional=1,
    ),
    "scores": Case(
        "MultiHeadAttention",
        [Q, K, V, None, KEYS],
        _TWO,
        outputs=[True, False, False, True],
        result=1,
    ),
}

COSINE, SINE = some(12, 4), some(12, 4)
WIDE = some(12, 8), some(12, 8)
SINK = some(4)


def grouped(
    rows: int,
    held: int,
    total: int,
    lengths: tuple[int, ...],
    *more: Array | None,
    size: int = 8,
    **attributes: Any,
) -> Case:
    batch = len(lengths)
    caches = [some(batch, 2, held, size) for _ in "kv"]
    inputs = [some(batch, rows, 4 * size), *(some(batch, rows, 2 * size) for _ in "kv"), *caches]
    given = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    operands = [*inputs, whole(*lengths), whole(total), *more]
    tables = [7, 8] if attributes.get("do_rotary") else []
    return Case("GroupQueryAttention", operands, given, tables, [True] * 3)


ROTARY = {"do_rotary": 1}
PACKED = some(1, 3, 64)
GROUPED = {
    "a prompt": grouped(5, 0, 5, (4,)),
    "a prompt in a longer cache": grouped(3, 8, 3, (2,)),
    "a step": grouped(1, 4, 5, (4,)),
    "a step in a longer cache": grouped(1, 8, 4, (3,)),
    "several steps": grouped(2, 4, 6, (5,)),
    "lengths of their own": grouped(1, 6, 6, (5, 3)),
    "turned": grouped(3, 0, 3, (2,), *WIDE, size=16, **ROTARY),
    "turned, a step": grouped(1, 4, 5, (4,), *WIDE, size=16, **ROTARY),
    "turned pairs": grouped(3, 0, 3, (2,), *WIDE, size=16, rotary_interleaved=1, **ROTARY),
    "turned in part": grouped(1, 6, 6, (5, 3), *WIDE, size=32, **ROTARY),
    "a window": grouped(6, 0, 6, (5,), local_window_size=2),
    "a window, a step": grouped(1, 6, 7, (6,), local_window_size=3),
    "a cap": grouped(2, 4, 6, (5,), softcap=1.5),
    "a smooth softmax": grouped(2, 4, 6, (5,), smooth_softmax=1),
    "a sink": grouped(2, 4, 6, (5,), None, None, None, None, SINK),
    "a bias": grouped(2, 4, 6, (5,), None, None, None, some(1, 4, 2, 6)),
    "a bias for all heads": grouped(2, 4, 6, (5,), None, None, None, some(1, 1, 2, 6)),
    "packed": Case(
        "GroupQueryAttention",
        [PACKED, None, None, some(1, 2, 4, 8), some(1, 2, 4, 8), whole(6), whole(7)],
        {"num_heads": 4, "kv_num_heads": 2},
        outputs=[True] * 3,
    ),
    "one head for each": Case(
        "GroupQueryAttention",
        [*(some(1, 2, 16) for _ in "qkv"), *(some(1, 2, 3, 8) for _ in "kv"), whole(4), whole(5)],
        {"num_heads": 2, "kv_num_heads": 2},
        outputs=[True] * 3,
    ),
}

PLACES = _RNG.integers(0, 12, (2, 4)).astype(np.int64)
TURNED = {
    "heads": Case("RotaryEmbedding", [some(2, 3, 4, 8), PLACES, COSINE, SINE], constants=[2, 3]),
    "columns": Case("RotaryEmbedding", [some(2, 4, 24), PLACES, COSINE, SINE], constants=[2, 3]),
    "pairs": Case(
        "RotaryEmbedding", [some(2, 4, 24), PLACES, COSINE, SINE], {"interleaved": 1}, [2, 3]
    ),
    "a first place": Case(
        "RotaryEmbedding", [some(2, 4, 24), np.array([3], np.int64), COSINE, SINE], constants=[2, 3]
    ),
    "a part": Case(
        "RotaryEmbedding",
        [some(2, 4, 24), PLACES, COSINE[:, :2], SINE[:, :2]],
        {"num_heads": 3, "rotary_embedding_dim": 4},
        [2, 3],
    ),
}
ALL = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("Attention", WHOLE),
        ("MultiHeadAttention", SPLIT),
        ("GroupQueryAttention", GROUPED),
        ("RotaryEmbedding", TURNED),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", ALL)
def test_attention_gives_what_onnx_runtime_gives(name: str) -> None:
    check(ALL[name])


@pytest.mark.parametrize(
    "name",
    [
        "Attention: causal",
        "Attention: a cache and a mask",
        "GroupQueryAttention: several steps",
        "GroupQueryAttention: turned in part",
    ],
)
def test_attention_takes_open_sizes(name: str) -> None:
    case = ALL[name]
    sizes = [list(x.shape) for x in case.feeds().values()]
    data = model([case], is_open=True)
    from onnx import ModelProto

    read = ModelProto.FromString(data)
    # Columns are what importers must know; batches, rows and lengths stay open.
    for value, size in zip(read.graph.input, sizes, strict=True):
        for axis in {3: [2], 4: [1, 3], 5: [0, 2, 4]}.get(len(size), []):
            value.type.tensor_type.shape.dim[axis].dim_value = size[axis]
    made = ours(read.SerializeToString(), case.feeds(), ["reference"])
    expected = theirs(model([case]), case.feeds())
    for x, y in zip(made, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_all_run_natively() -> None:
    """But slices of no element, and caches whose length is an input that is not a size."""
    cases = [case for name, case in ALL.items() if "empty" not in name]
    fixed = [
        replace(case, constants=[*case.constants, 6]) if case.kind == GQA else case
        for case in cases
    ]
    session = check_together(fixed)
    assert {row["backend"] for row in session.placement} == {"cpu"}


def _decoder() -> bytes:
    """A cache whose length is the mask's, all sizes open."""
    from onnx import helper

    def node(kind: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> Any:
        return helper.make_node(kind, inputs.split(), outputs.split(), domain=domain, **attributes)

    nodes = [
        node("ReduceSum", "mask axis", "count", keepdims=0),
        node("Sub", "count one", "last"),
        node("Cast", "last", "lengths", to=6),
        node("Shape", "mask", "sizes"),
        node("Gather", "sizes axis0", "size", axis=0),
        node("Cast", "size", "total", to=6),
        node(
            "GroupQueryAttention",
            "q k v past_k past_v lengths total cos sin",
            "y present_k present_v",
            MICROSOFT,
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
        ),
    ]
    sizes: dict[str, list[Any]] = {
        "mask": ["b", "t"],
        "q": ["b", "s", 64],
        "k": ["b", "s", 32],
        "v": ["b", "s", 32],
        "past_k": ["b", 2, "p", 16],
        "past_v": ["b", 2, "p", 16],
    }
    ends = [
        [helper.make_tensor_value_info(n, 7 if n == "mask" else 1, size) for n, size in side]
        for side in (
            sizes.items(),
            [("y", ["b", "s", 64]), *((n, ["b", 2, "t", 16]) for n in ("present_k", "present_v"))],
        )
    ]
    stored = {
        "axis": np.array([1], np.int64),
        "axis0": np.array(1, np.int64),
        "one": np.array(1, np.int64),
        "cos": WIDE[0],
        "sin": WIDE[1],
    }
    constants = [numpy_helper.from_array(x, name) for name, x in stored.items()]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return bytes(helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString())


@pytest.mark.parametrize("backend", ["reference", pytest.param("cpu", marks=pytest.mark.slow)])
def test_a_decoder_takes_a_prompt_and_then_steps(backend: str) -> None:
    data = _decoder()
    session = circlet.Session(data, backends=sorted({backend, "reference"}), cache=False)
    past = [some(1, 2, 0, 16), some(1, 2, 0, 16)]
    for rows in (4, 1, 1, 2):
        total = past[0].shape[2] + rows
        feeds = {
            "mask": np.ones((1, total), np.int64),
            "q": some(1, rows, 64),
            "k": some(1, rows, 32),
            "v": some(1, rows, 32),
            "past_k": past[0],
            "past_v": past[1],
        }
        made = list(session.run(feeds).values())
        close(made, theirs(data, feeds), 1e-5)
        past = made[1:]
    own = [row for row in session.placement if "y" in str(row["source"]).split("+")]
    assert {row["backend"] for row in own} == {backend}


@pytest.mark.parametrize(
    "case",
    [
        Case("Attention", [some(1, 16, 32), some(32, 96), some(96)], {"num_heads": 4}, [1, 2]),
        Case("MultiHeadAttention", [some(1, 16, 32)] * 3, {"num_heads": 4, "unidirectional": 1}),
        grouped(16, 0, 16, (15,), None, None, None, some(1, 1, 16, 16)),
    ],
    ids=lambda case: case.kind,
)
def test_the_kernel_of_attention_takes_it(case: Case) -> None:
    """What a network of transformers has between its projections is one native operator."""
    graph = circlet.load(model([case])).main
    FuseAttention().run(graph)
    kinds = [op.kind for op in graph.ops]
    assert FUSED_ATTENTION in kinds and "SOFTMAX" not in kinds


def test_packed_sequences_see_their_own_tokens() -> None:
    tokens = some(6, 8)
    case = Case(
        "PackedAttention",
        [tokens, W, BIAS, np.arange(6, dtype=np.int32).reshape(2, 3), whole(0, 2, 6)],
        _TWO,
        _FIXED,
    )
    (made,) = ours(model([case]), case.feeds(), ["reference"])
    for begin, end in ((0, 2), (2, 6)):
        alone = Case("Attention", [tokens[None, begin:end], W, BIAS], _TWO, _FIXED)
        (expected,) = theirs(model([alone]), alone.feeds())
        np.testing.assert_allclose(made[begin:end], expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"do_rotary": 1}, "the tables of rotary embedding are not stated"),
        ({"past_present_share_buffer": 1}, "one buffer"),
    ],
)
def test_forms_that_are_refused_say_why(attributes: dict[str, Any], reason: str) -> None:
    case = attention(**attributes)
    with pytest.raises(UnsupportedOpsError, match=reason):
        ours(model([case]), case.feeds(), ["reference"])


def test_profiles_count_no_rows_of_caches_that_may_not_be_held() -> None:
    case = replace(grouped(1, 256, 256, (3,)), constants=[6])
    found = circlet.profile(model([case]), list(case.feeds().values()), runs=2, threads=1)
    rows = [row for row in found.operators if row.kind.endswith(GQA)]
    assert rows
    cache = case.inputs[3]
    assert cache is not None
    assert sum(row.data_bytes for row in rows) < cache.nbytes // 4
