"""Graphs that call graphs: deep, wide, with shared callees, in rings, in loops that grow.

Every graph takes a flag and numbers and gives a flag and numbers, so that any may call any.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from tests.fuzz.growth.parts import Parts, Values, amount, tensor

_SHALLOW, _DEEP = (1, 2, 3, 4, 6, 8), (10, 12, 16, 24, 31, 32, 33, 40, 100)
_WIDTHS = (1, 1, 2, 2, 3, 5)
_KINDS = ("IF", "IF", "STABLEHLO_COMPOSITE", "STABLEHLO_COMPOSITE", "WHILE", "mixed", "mixed")
_MOST_CALLS = 600
_FEW_OWN_GRAPHS, _MANY_OWN_GRAPHS = (10, 30), (300,)
_FLAG, _NUMBERS = 0, 1


def make(random: Random) -> bytes:
    """A file of levels of graphs, each of which calls graphs of lower levels."""
    parts, depth, width = Parts(), amount(random, _SHALLOW, _DEEP), random.choice(_WIDTHS)
    width = max(1, min(width, _MOST_CALLS // depth))
    kind, callees = random.choice(_KINDS), _callees(random, depth, width)
    conditions = len(callees) + 1
    grows = random.random() < 0.2
    for called in callees:
        _caller(parts, [(_kind(kind, random), number) for number in called], conditions, random)
    _leaf(parts, random, grows)
    _condition(parts)
    return parts.encode()


def _kind(kind: str, random: Random) -> str:
    known = ("IF", "WHILE", "STABLEHLO_COMPOSITE")
    return random.choice(known) if kind == "mixed" else kind


def _callees(random: Random, depth: int, width: int) -> list[list[int]]:
    """Which graphs each graph calls; the graph behind the last is the leaf."""
    style = random.choice(("next", "next", "lower", "own", "any"))
    if style == "own":
        return _tree(depth, width, amount(random, _FEW_OWN_GRAPHS, _MANY_OWN_GRAPHS))
    choose: dict[str, Callable[[int], int]] = {
        "next": lambda level: level + 1,
        "lower": lambda level: random.randint(level + 1, depth),
        "any": lambda level: random.randint(0, depth) if random.random() < 0.1 else level + 1,
    }
    return [[choose[style](level) for _ in range(width)] for level in range(depth)]


def _tree(depth: int, width: int, most: int) -> list[list[int]]:
    """Each call has a graph of its own, as many levels down as there may be graphs."""
    while depth > 1 and width**depth > most:
        depth -= 1
    inner = sum(width**level for level in range(depth))
    leaf = inner
    return [
        [min(number * width + 1 + child, leaf) for child in range(width)] for number in range(inner)
    ]


def _caller(parts: Parts, calls: list[tuple[str, int]], condition: int, random: Random) -> None:
    """A graph whose calls follow each other, or all take what the graph is given."""
    tensors: list[Values] = _pair("in")
    operators: list[Values] = []
    flag, numbers, chained = _FLAG, _NUMBERS, random.random() < 0.6
    for kind, callee in calls:
        tensors += _pair(f"call{len(operators)}")
        made = [len(tensors) - 2, len(tensors) - 1]
        given = [flag, numbers] if chained else [_FLAG, _NUMBERS]
        operators.append(_call(parts, kind, callee, condition, given, made))
        flag, numbers = made
    if random.random() < 0.2:
        flag = _FLAG
    parts.graph(tensors, operators, [_FLAG, _NUMBERS], [flag, numbers])


def _call(
    parts: Parts, kind: str, callee: int, condition: int, given: list[int], made: list[int]
) -> Values:
    if kind == "IF":
        options = {"then_subgraph_index": callee, "else_subgraph_index": callee}
        return parts.op("IF", [given[0], *given], made, {"table": "IfOptions", **options})
    if kind == "WHILE":
        options = {"cond_subgraph_index": condition, "body_subgraph_index": callee}
        return parts.op("WHILE", given, made, {"table": "WhileOptions", **options})
    more: Values = {"name": "twice", "decomposition_subgraph_index": callee}
    return parts.op(kind, given, made, {"table": "StableHLOCompositeOptions", **more})


def _leaf(parts: Parts, random: Random, grows: bool) -> None:
    """What is computed in the end; the flag falls, flips or stays."""
    tensors, operators = [*_pair("in"), *_pair("out")], []
    if grows:
        joined = {"table": "ConcatenationOptions"}
        operators.append(parts.op("CONCATENATION", [_NUMBERS, _NUMBERS], [3], joined))
        tensors[3] |= {"shape": [1], "shape_signature": [-1]}
    else:
        operators.append(parts.op("ADD", [_NUMBERS, _NUMBERS], [3], {"table": "AddOptions"}))
    flag = random.choice(("falls", "flips", "stays"))
    if flag == "falls":
        tensors[2] = parts.constant("false", np.array([False]))
    elif flag == "flips":
        operators.append(parts.op("LOGICAL_NOT", [_FLAG], [2]))
    parts.graph(tensors, operators, [0, 1], [_FLAG if flag == "stays" else 2, 3], "leaf")


def _condition(parts: Parts) -> None:
    parts.graph(_pair("in"), [], [_FLAG, _NUMBERS], [_FLAG], "condition")


def _pair(name: str) -> list[Values]:
    return [tensor(f"{name}_flag", "BOOL", (1,)), tensor(f"{name}_numbers")]
