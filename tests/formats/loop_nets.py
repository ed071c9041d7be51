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


def caching(heads: int, depth: int) -> bytes:
    """A decoder with caches of keys and values that are empty at first, up to a length."""
    width = heads * depth
    nodes = [
        node("Slice", "words back far axis", "tail"),
        node("Gather", "table tail", "e0", axis=0),
        node("Shape", "words", "sizes"),
        node("Gather", "sizes one", "count", axis=0),
        node("Sub", "count one", "place"),
        node("Gather", "places place", "p", axis=0),
        node("Add", "e0 p", "e"),
    ]
    for part in "qkv":
        nodes += [
            node("MatMul", f"e w{part}", f"{part}0"),
            node("Reshape", f"{part}0 apart", f"{part}1"),
            node("Transpose", f"{part}1", f"{part}2", perm=[0, 2, 1, 3]),
        ]
    nodes += [
        node("Concat", "keys k2", "keys2", axis=2),
        node("Concat", "values v2", "values2", axis=2),
        node("Transpose", "keys2", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q2 turned", "scores"),
        node("Softmax", "scores", "shares", axis=-1),
        node("MatMul", "shares values2", "seen"),
        node("Transpose", "seen", "seen2", perm=[0, 2, 1, 3]),
        node("Reshape", "seen2 together", "joined"),
        node("Add", "joined e", "y"),
        node("MatMul", "y out", "logits"),
        node("ArgMax", "logits", "best", axis=2, keepdims=0),
        node("Concat", "words best", "longer", axis=1),
        node("Shape", "longer", "sizes2"),
        node("Gather", "sizes2 one", "count2", axis=0),
        node("Less", "count2 length", "goes_on"),
    ]
    cache: list[Any] = [1, heads, None, depth]
    body = helper.make_graph(
        nodes,
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("words", INT64, [1, "k"]),
                 ("keys", FLOAT, [1, heads, "m", depth]),
                 ("values", FLOAT, [1, heads, "n", depth])]),
        _values([("goes_on", BOOL, []), ("longer", INT64, [1, None]), ("keys2", FLOAT, cache),
                 ("values2", FLOAT, cache)]),
    )  # fmt: skip
    stored = [weights(f"w{part}", width, width, seed=ord(part)) for part in "qkv"]
    stored += [weights("table", WORDS, width), weights("places", 128, width, seed=4)]
    stored += [weights("out", width, WORDS, seed=3), number("apart", [1, 1, heads, depth])]
    stored += [number("together", [1, 1, width]), number("one", 1), number("axis", [1])]
    stored += [number("back", [-1]), number("far", [MOST]), number("most", MOST)]
    stored += [number("start", True, np.bool_)]
    stored += [number("empty", np.zeros((1, heads, 0, depth)), np.float32)]
    loop = node("Loop", "most start begin empty empty", "words_out keys_out values_out", body=body)
    inputs: list[Value] = [("begin", INT64, [1, 1]), ("length", INT64, [])]
    outputs: list[Value] = [("words_out", INT64, [1, "k"]), ("keys_out", FLOAT, cache)]
    return file([loop], inputs, outputs, stored)


def halving() -> bytes:
    """For each number of a list a loop that halves it until it is small; the sums of halves."""
    inner = helper.make_graph(
        [
            node("Mul", "a half", "b"),
            node("Greater", "b little", "goes_on"),
            node("Identity", "b", "row"),
        ],
        "inner",
        _values([("turn", INT64, []), ("on", BOOL, []), ("a", FLOAT, [])]),
        _values([("goes_on", BOOL, []), ("b", FLOAT, []), ("row", FLOAT, [])]),
    )
    body = helper.make_graph(
        [
            node("Gather", "x number", "first", axis=0),
            node("Loop", "most start first", "last rows", body=inner),
            node("ReduceSum", "rows", "sum", keepdims=0),
            node("Identity", "outer_on", "still"),
        ],
        "body",
        _values([("number", INT64, []), ("outer_on", BOOL, [])]),
        _values([("still", BOOL, []), ("sum", FLOAT, [])]),
    )
    stored = [number("count", 6), number("most", MOST), number("start", True, np.bool_)]
    stored += [number("half", 0.5, np.float32), number("little", 0.01, np.float32)]
    loop = helper.make_node("Loop", ["count", ""], ["sums"], body=body)
    return file([loop], [("x", FLOAT, [6])], [("sums", FLOAT, ["k"])], stored)


def repeating() -> bytes:
    """As many rows as an input says, none of which ends the loop."""
    body = helper.make_graph(
        [
            node("MatMul", "s w", "after"),
            node("Identity", "after", "row"),
            node("Identity", "on", "still"),
        ],
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("s", FLOAT, [WIDTH])]),
        _values([("still", BOOL, []), ("after", FLOAT, [WIDTH]), ("row", FLOAT, [WIDTH])]),
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["last", "rows"], body=body)
    inputs: list[Value] = [("x", FLOAT, [WIDTH]), ("count", INT64, [])]
    stored = [weights("w", WIDTH, WIDTH)]
    return file([loop], inputs, [("rows", FLOAT, ["k", WIDTH])], stored)


def keeping() -> bytes:
    """Rows to which a turn may join one, and of which it keeps two: as many as at first."""
    join = helper.make_graph(
        [node("Concat", "rows row", "more", axis=0)], "join", [], _values([("more", FLOAT, [])])
    )
    leave = helper.make_graph(
        [node("Neg", "rows", "same")], "leave", [], _values([("same", FLOAT, [])])
    )
    body = helper.make_graph(
        [
            node("Equal", "turn third", "is_third"),
            helper.make_node("If", ["is_third"], ["some"], then_branch=join, else_branch=leave),
            node("Slice", "some begin two axis", "after"),
            node("Less", "turn end", "goes_on"),
        ],
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("rows", FLOAT, [None, 4])]),
        _values([("goes_on", BOOL, []), ("after", FLOAT, [None, 4])]),
    )
    for branch, name in ((join, "more"), (leave, "same")):
        branch.output[0].CopyFrom(_values([(name, FLOAT, [None, 4])])[0])
    stored = [weights("row", 1, 4), number("third", 3), number("begin", [0]), number("two", [2])]
    stored += [number("axis", [0]), number("most", MOST), number("start", True, np.bool_)]
    loop = node("Loop", "most start x", "y", body=body)
    inputs: list[Value] = [("x", FLOAT, [2, 4]), ("end", INT64, [])]
    return file([loop], inputs, [("y", FLOAT, [None, 4])], stored)


def telling(rows: int) -> bytes:
    """A decoder that tells of each word how likely all words were."""
    nodes = [
        node("Slice", "words back far axis", "tail"),
        node("Gather", "table tail", "e", axis=0),
        node("MatMul", "e out", "logits"),
        node("ArgMax", "logits", "best", axis=2, keepdims=0),
        node("Concat", "words best", "longer", axis=1),
        node("Softmax", "logits", "shares", axis=-1),
        node("Add", "n one", "next"),
        node("Less", "next length", "goes_on"),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("n", INT64, []),
                 ("words", INT64, [rows, "k"])]),
        _values([("goes_on", BOOL, []), ("next", INT64, []), ("longer", INT64, [rows, None]),
                 ("shares", FLOAT, [rows, None, WORDS])]),
    )  # fmt: skip
    stored = [weights("table", WORDS, WIDTH), weights("out", WIDTH, WORDS, seed=3)]
    stored += [number("back", [-1]), number("far", [MOST]), number("axis", [1]), number("one", 1)]
    stored += [number("zero", 0), number("most", MOST)]
    loop = node("Loop", "most start zero begin", "count words_out shares_out", body=body)
    inputs: list[Value] = [("begin", INT64, [rows, 1]), ("length", INT64, []), ("start", BOOL, [])]
    outputs: list[Value] = [("words_out", INT64, [rows, "k"])]
    outputs.append(("shares_out", FLOAT, ["n", rows, 1, WORDS]))
    return file([loop], inputs, outputs, stored)


def filling(most: int | str, times: int, *, start: str = "") -> bytes:
    """Rows to which every turn joins one several times, as long as they are fewer than 20.

    Args:
        most: The trip count, or the name of an input.
        start: The name of an input that says whether to take a first turn; empty for yes.
    """
    body = helper.make_graph(
        [
            node("Cast", "turn", "t", to=FLOAT),
            node("Reshape", "t one_row", "row"),
            node("Concat", "rows" + " row" * times, "more", axis=0),
            node("Shape", "more", "sizes"),
            node("Gather", "sizes first", "count", axis=0),
            node("Less", "count enough", "goes_on"),
            node("Identity", "count", "counted"),
        ],
        "body",
        _values([("turn", INT64, []), ("on", BOOL, []), ("rows", FLOAT, [None, 1])]),
        _values([("goes_on", BOOL, []), ("more", FLOAT, [None, 1]), ("counted", INT64, [])]),
    )
    stored = [number("one_row", [1, 1]), number("first", 0), number("enough", 20)]
    inputs: list[Value] = [("x", FLOAT, [3, 1])]
    if isinstance(most, str):
        inputs.append((most, INT64, []))
    else:
        stored.append(number("most", most))
    if start:
        inputs.append((start, BOOL, []))
    else:
        stored.append(number("yes", True, np.bool_))
    loop = node(
        "Loop",
        f"{'most' if isinstance(most, int) else most} {start or 'yes'} x",
        "rows_out counts",
        body=body,
    )
    outputs: list[Value] = [("rows_out", FLOAT, ["k", 1]), ("counts", INT64, ["turns"])]
    return file([loop], inputs, outputs, stored)


def adding() -> bytes:
    """A sum that a run adds one to, and what as many turns give as an input says."""
    body = helper.make_graph(
        [node("Cast", "turn", "row", to=FLOAT), node("Identity", "on", "still")],
        "body",
        _values([("turn", INT64, []), ("on", BOOL, [])]),
        _values([("still", BOOL, []), ("row", FLOAT, [])]),
    )
    nodes = [
        node("ScatterElements", "sum first one", "more", axis=0, reduction="add"),
        helper.make_node("Loop", ["count", ""], ["rows"], body=body),
        node("ReduceSum", "rows", "total", keepdims=0),
    ]
    stored = [number("first", [0]), number("one", [1], np.float32)]
    inputs: list[Value] = [("sum", FLOAT, [4]), ("count", INT64, [])]
    return file(nodes, inputs, [("more", FLOAT, [4]), ("total", FLOAT, [])], stored)
