"""Networks in .onnx whose loops end by what they compute, as exporters write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper = onnx.helper
FLOAT, INT64, BOOL = 1, 7, 9
MOST = np.iinfo(np.int64).max
WIDTH, WORDS = 8, 11
_SCALE = 0.5

Value = tuple[str, int, list[Any]]


def _values(rows: list[Value]) -> list[Any]:
    return [helper.make_tensor_value_info(*row) for row in rows]


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def number(name: str, array: Any, dtype: Any = np.int64) -> Any:
    return onnx.numpy_helper.from_array(np.array(array, dtype), name)


def weights(name: str, *sizes: int, seed: int = 0) -> Any:
    drawn = np.random.default_rng(seed).normal(0, _SCALE, sizes)
    return number(name, drawn, np.float32)


def file(nodes: list[Any], inputs: list[Value], outputs: list[Value], stored: list[Any]) -> bytes:
    ends = _values(inputs), _values(outputs)
    graph = helper.make_graph(nodes, "main", *ends, initializer=stored)
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(made.SerializeToString())


def collecting(most: int | str) -> bytes:
    """Rows of a recurrence, until a count reaches an input; `most` is one's name, or a number."""
    body = helper.make_graph(
        [
            node("MatMul", "s w", "m"),
            node("Tanh", "m", "t"),
            node("Add", "t x", "after"),
            node("Add", "n one", "next"),
            node("Less", "next end", "goes_on"),
            node("Identity", "after", "row"),
        ],
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("s", FLOAT, [WIDTH]), ("n", INT64, [])]),
        _values([("goes_on", BOOL, []), ("after", FLOAT, [WIDTH]), ("next", INT64, []),
                 ("row", FLOAT, [WIDTH])]),
    )  # fmt: skip
    inputs: list[Value] = [("x", FLOAT, [WIDTH]), ("end", INT64, []), ("start", BOOL, [])]
    stored = [weights("w", WIDTH, WIDTH), number("one", 1), number("zero", 0)]
    if isinstance(most, str):
        inputs.append((most, INT64, []))
    else:
        stored.append(number("most", most))
    name = most if isinstance(most, str) else "most"
    loop = node("Loop", f"{name} start x zero", "last count rows", body=body)
    outputs: list[Value] = [("last", FLOAT, [WIDTH]), ("rows", FLOAT, ["k", WIDTH])]
    return file([loop], inputs, outputs, stored)


_LAST_WORD = [
    node("Slice", "words back far axis", "tail"),
    node("Squeeze", "tail axis", "word"),
    node("Gather", "table word", "e", axis=0),
    node("MatMul", "e w", "a"),
]
_ALL_WORDS = [
    node("Gather", "table words", "e", axis=0),
    node("MatMul", "e w", "keys"),
    node("Transpose", "keys", "turned", perm=[0, 2, 1]),
    node("MatMul", "e turned", "scores"),
    node("Softmax", "scores", "shares", axis=-1),
    node("MatMul", "shares keys", "seen"),
    node("Slice", "seen back far axis", "tail"),
    node("Squeeze", "tail axis", "a"),
]


def decoding(rows: int, most: int, *, attends: bool = False, length: int | str = "") -> bytes:
    """A greedy decoder that joins a word to its words in every turn, until all rows give an end.

    Args:
        most: The trip count.
        attends: Whether a turn looks at all words so far, or at the last one.
        length: What the condition compares the count of turns with besides: a constant, or the
            name of an input.
    """
    nodes = [
        *(_ALL_WORDS if attends else _LAST_WORD),
        node("MatMul", "state v", "b"),
        node("Add", "a b", "ab"),
        node("Tanh", "ab", "after"),
        node("MatMul", "after out", "logits"),
        node("ArgMax", "logits", "best", axis=1, keepdims=1),
        node("Concat", "words best", "longer", axis=1),
        node("Equal", "best end", "are_ends"),
        node("Cast", "are_ends", "ends", to=INT64),
        node("ReduceMin", "ends", "least", keepdims=0),
        node("Cast", "least", "has_ended", to=BOOL),
        node("Not", "has_ended", "is_open"),
        node("Add", "n one", "next"),
    ]
    stored = [weights("table", WORDS, WIDTH), weights("w", WIDTH, WIDTH, seed=1)]
    stored += [weights("v", WIDTH, WIDTH, seed=2), weights("out", WIDTH, WORDS, seed=3)]
    stored += [number("back", [-1]), number("far", [MOST]), number("axis", [1]), number("one", 1)]
    stored += [number("zero", 0), number("start", True, np.bool_), number("most", most)]
    inputs: list[Value] = [("first", FLOAT, [rows, WIDTH]), ("begin", INT64, [rows, 1])]
    inputs.append(("end", INT64, []))
    if length != "":
        nodes += [node("Less", "next length", "is_short"), node("And", "is_short is_open", "on2")]
    if isinstance(length, int):
        stored.append(number("length", length))
    elif length:
        inputs.append(("length", INT64, []))
    goes_on = "on2" if length != "" else "is_open"
    body = helper.make_graph(
        nodes,
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("n", INT64, []),
                 ("state", FLOAT, [rows, WIDTH]), ("words", INT64, [rows, "k"])]),
        _values([(goes_on, BOOL, []), ("next", INT64, []), ("after", FLOAT, [rows, WIDTH]),
                 ("longer", INT64, [rows, None])]),
    )  # fmt: skip
    loop = node("Loop", "most start zero first begin", "turns state_out words_out", body=body)
    outputs: list[Value] = [("words_out", INT64, [rows, "k"]), ("state_out", FLOAT, [rows, WIDTH])]
    return file([loop], inputs, outputs, stored)


def searching(beams: int, most: int) -> bytes:
    """A beam search: every turn takes other beams' words over, and joins one to each."""
    nodes = [
        *_LAST_WORD,
        node("Tanh", "a", "s"),
        node("MatMul", "s out", "logits"),
        node("LogSoftmax", "logits", "logs", axis=-1),
        node("Reshape", "score column", "scores"),
        node("Add", "logs scores", "sums"),
        node("Reshape", "sums flat", "all"),
        node("TopK", "all beams", "best places"),
        node("Div", "places words_known", "beam"),
        node("Mod", "places words_known", "chosen"),
        node("Gather", "words beam", "kept", axis=0),
        node("Unsqueeze", "chosen axis", "new"),
        node("Concat", "kept new", "longer", axis=1),
        node("ReduceMax", "best", "top", keepdims=0),
        node("Greater", "top floor", "goes_on"),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("words", INT64, [beams, "k"]),
                 ("score", FLOAT, [beams])]),
        _values([("goes_on", BOOL, []), ("longer", INT64, [beams, None]),
                 ("best", FLOAT, [beams])]),
    )  # fmt: skip
    stored = [weights("table", WORDS, WIDTH), weights("w", WIDTH, WIDTH, seed=1)]
    stored += [weights("out", WIDTH, WORDS, seed=3), number("column", [beams, 1])]
    stored += [number("back", [-1]), number("far", [MOST]), number("axis", [1])]
    stored += [number("flat", [-1]), number("beams", [beams]), number("words_known", WORDS)]
    stored += [number("start", True, np.bool_), number("most", most)]
    loop = node("Loop", "most start begin zeros", "words_out best_out", body=body)
    inputs: list[Value] = [("begin", INT64, [beams, 1]), ("zeros", FLOAT, [beams])]
    inputs.append(("floor", FLOAT, []))
    outputs: list[Value] = [("words_out", INT64, [beams, "k"]), ("best_out", FLOAT, [beams])]
    return file([loop], inputs, outputs, stored)
