"""Ensembles of trees: every row walks down all trees at once, a level at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.formats.onnx.importers.tabular.scores import (
    ML,
    best,
    both_classes,
    labels_of,
    numbers,
    one_of_two,
    reals,
    transformed,
    transformed_targets,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import chosen, compared, joined
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.words import counted

Ints = npt.NDArray[np.int32]
_MOST_LEVELS = 256
_MODES = ("LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_LISTS = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")


@dataclass(frozen=True)
class _Trees:
    """Nodes of all trees in one list; a leaf is its own child.

    Attributes:
        columns, limits: What a node compares, and with what.
        near, far: Where a row goes on whose element is at most the limit, and any other.
        equal: Which nodes ask for equal elements instead.
        missing_near: Which nodes send what is no number to `near`.
        roots: The first node of each tree.
        levels: How many comparisons lie above the deepest leaf.
        numbers: The tree of each node.
        places: Where a node of a tree is in the list.
    """

    columns: Ints
    limits: npt.NDArray[np.float32]
    near: Ints
    far: Ints
    equal: npt.NDArray[np.bool_]
    missing_near: npt.NDArray[np.bool_]
    roots: Ints
    levels: int
    numbers: npt.NDArray[np.int64]
    places: dict[tuple[int, int], int]


def _trees(node: Node) -> _Trees:
    """The trees that attributes list."""
    trees, own, columns, yes, no = (
        np.array(node.ints(f"nodes_{name}") or (), np.int64) for name in _LISTS
    )
    limits, modes = reals(node, "nodes_values"), list(node.attributes.get("nodes_modes") or [])
    lists = (trees, own, columns, yes, no, limits, modes)
    if not modes or len({len(values) for values in lists}) != 1 or not set(modes) <= set(_MODES):
        raise node.wrong("the lists of nodes are not of one length, or hold unknown modes")
    places = {key: at for at, key in enumerate(zip(trees.tolist(), own.tolist(), strict=True))}
    leaf = np.array([mode == "LEAF" for mode in modes])
    children = [_children(node, trees, ids, leaf, places) for ids in (yes, no)]
    kinds = np.array([_MODES.index(mode) for mode in modes])
    tracked = np.array(node.ints("nodes_missing_value_tracks_true") or [0] * len(modes), bool)
    turned = np.isin(kinds, (3, 4, 6))  # >=, > and != ask the opposite of <, <= and =
    below = np.isin(kinds, (2, 3))  # < is <= of the float before
    near, far = (np.where(turned, children[1 - i], children[i]) for i in (0, 1))
    roots = _roots(node, trees, np.concatenate([child[~leaf] for child in children]))
    return _Trees(
        np.where(leaf, 0, columns).astype(np.int32),
        np.where(below, np.nextafter(limits, np.float32(-np.inf)), limits).astype(np.float32),
        near.astype(np.int32),
        far.astype(np.int32),
        np.isin(kinds, (5, 6)),
        np.where(turned, ~tracked, tracked) & ~leaf,
        roots,
        _levels(node, roots, children, leaf),
        trees,
        places,
    )


def _children(
    node: Node,
    trees: np.ndarray,
    ids: np.ndarray,
    leaf: np.ndarray,
    places: dict[tuple[int, int], int],
) -> npt.NDArray[np.int64]:
    keys = list(zip(trees.tolist(), ids.tolist(), strict=True))
    found = [at if leaf[at] else places.get(key, -1) for at, key in enumerate(keys)]
    if min(found) < 0 or len(places) != len(keys):
        raise node.wrong("a branch leads to no node of its tree, or a node is listed twice")
    return np.array(found, np.int64)


def _roots(node: Node, trees: np.ndarray, children: npt.NDArray[np.int64]) -> Ints:
    """The node of each tree that no other leads to."""
    roots = np.setdiff1d(np.arange(len(trees)), children)
    if not np.array_equal(np.sort(trees[roots]), np.unique(trees)):
        raise node.wrong("a tree has no root, or several")
    return roots.astype(np.int32)


def _levels(
    node: Node, roots: Ints, children: list[npt.NDArray[np.int64]], leaf: npt.NDArray[np.bool_]
) -> int:
    """The depth of the deepest leaf."""
    level, at, seen = 0, roots.astype(np.int64), np.zeros(len(leaf), bool)
    while len(at):
        if level > _MOST_LEVELS:
            raise NotLoweredError(f"a tree has more than {_MOST_LEVELS} levels, or a circle")
        seen[at] = True
        at = at[~leaf[at]]
        at = np.unique(np.concatenate([child[at] for child in children]))
        level += 1
    if not seen.all():
        raise node.wrong("nodes lead to each other in a circle")
    return level - 1


def _leaves(node: Node, x: Tensor, trees: _Trees) -> Tensor:
    """The leaf that each row ends in, INT32 [rows, trees]."""
    columns = x.shape[-1]
    if columns is not None and trees.columns.max(initial=0) >= columns:
        raise node.wrong(
            "a node compares a column that the table lacks", counted(columns, "column")
        )
    start = node.op("MUL", [_first_column(node, x), node.const(0, np.int32)])
    at = node.op("ADD", [start, node.const(trees.roots[None])])
    if not trees.levels:
        return at
    tables = [node.const(t) for t in (trees.columns, trees.limits, trees.near, trees.far)]
    for _ in range(trees.levels):
        column, limit, near, far = (node.op("GATHER", [table, at]) for table in tables)
        value = node.op("GATHER", [x, column], GatherAttrs(1, 1))
        at = chosen(node, _goes_near(node, trees, at, value, limit), near, far)
    return at


def _first_column(node: Node, x: Tensor) -> Tensor:
    """A column of zeros, INT32 [rows, 1]."""
    begin, size = node.const([0, 0], np.int32), node.const([-1, 1], np.int32)
    column = node.op("SLICE", [x, begin, size])
    same = compared(node, "EQUAL", column, column)
    return node.cast(same, DType.INT32)


def _goes_near(node: Node, trees: _Trees, at: Tensor, value: Tensor, limit: Tensor) -> Tensor:
    near = compared(node, "LESS_EQUAL", value, limit)
    if trees.equal.any():
        same = compared(node, "EQUAL", value, limit)
        wanted = node.op("GATHER", [node.const(trees.equal), at])
        near = chosen(node, wanted, same, near)
    if trees.missing_near.any():
        missing = compared(node, "NOT_EQUAL", value, value)
        wanted = node.op("GATHER", [node.const(trees.missing_near), at])
        near = node.op("LOGICAL_OR", [near, node.op("LOGICAL_AND", [missing, wanted])])
    return near


def _votes(node: Node, trees: _Trees, prefix: str, count: int) -> npt.NDArray[np.float32]:
    """The weights of all nodes, [nodes, count]."""
    keys = zip(
        node.ints(f"{prefix}_treeids") or (), node.ints(f"{prefix}_nodeids") or (), strict=True
    )
    made = np.zeros((len(trees.near), count), np.float32)
    targets, weights = node.ints(f"{prefix}_ids") or (), reals(node, f"{prefix}_weights")
    for key, target, weight in zip(keys, targets, weights, strict=True):
        if key not in trees.places or not 0 <= target < count:
            raise node.wrong("a weight belongs to no node, or to no target", f"{key}, {target}")
        made[trees.places[key], target] += weight
    return made


def _totals(node: Node, trees: _Trees, votes: npt.NDArray[np.float32], how: str) -> Tensor:
    """[rows, targets]: what the leaves of all trees give together."""
    leaves = _leaves(node, numbers(node), trees)
    rows = node.op("GATHER", [node.const(votes), leaves])
    kinds = {"SUM": "SUM", "AVERAGE": "MEAN", "MIN": "REDUCE_MIN", "MAX": "REDUCE_MAX"}
    if how not in kinds:
        raise node.wrong("leaves cannot be taken together so", how)
    made = node.op(kinds[how], [rows, node.const([1], np.int32)], ReducerAttrs(False))
    base = reals(node, "base_values")
    if not base.size:
        return made
    if base.size not in (1, votes.shape[1]):
        raise node.wrong("there is not one base value for each target")
    return node.op("ADD", [made, node.const(base)])


def _refuse_doubles(node: Node) -> None:
    if any(name.endswith("_as_tensor") for name in node.attributes):
        raise NotLoweredError("the trees hold FLOAT64 numbers")


@importer("TreeEnsembleRegressor", domain=ML)
def _tree_ensemble_regressor(node: Node) -> Tensor:
    _refuse_doubles(node)
    trees, count = _trees(node), node.whole("n_targets", 1)
    votes = _votes(node, trees, "target", count)
    totals = _totals(node, trees, votes, node.text("aggregate_function", "SUM"))
    return transformed_targets(node, totals, count)


@importer("TreeEnsembleClassifier", domain=ML)
def _tree_ensemble_classifier(node: Node) -> list[Tensor]:
    _refuse_doubles(node)
    labels, trees = labels_of(node, "classlabels_int64s"), _trees(node)
    votes = _votes(node, trees, "class", len(labels))
    if len(labels) == 2:
        return _two_classes(node, trees, votes, labels)
    scores = _totals(node, trees, votes, "SUM")
    return [best(node, _voted(node, trees, scores), labels), transformed(node, scores)]


def _voted(node: Node, trees: _Trees, scores: Tensor) -> Tensor:
    """Scores that may win: those of classes that a leaf on the way of a row has a weight for."""
    count = scores.shape[-1] or 0
    places = zip(node.ints("class_treeids") or (), node.ints("class_nodeids") or (), strict=True)
    present = np.zeros((len(trees.near), count), np.float32)
    for place, target in zip(places, node.ints("class_ids") or (), strict=True):
        present[trees.places[place], target] = 1
    leaf = trees.near == np.arange(len(trees.near))
    own = [present[leaf & (trees.numbers == tree)].all(0) for tree in np.unique(trees.numbers)]
    if reals(node, "base_values").size or np.any(own, axis=0).all():
        return scores
    rows = node.op("GATHER", [node.const(present), _leaves(node, numbers(node), trees)])
    most = node.op("REDUCE_MAX", [rows, node.const([1], np.int32)], ReducerAttrs(False))
    is_voted = compared(node, "GREATER", most, node.const(np.float32(0)))
    return chosen(node, is_voted, scores, node.const(np.float32(-np.inf)))


def _two_classes(
    node: Node, trees: _Trees, votes: npt.NDArray[np.float32], labels: np.ndarray
) -> list[Tensor]:
    """Weights are all those of one class, and decide about the second.

    Listed for the first, they are a share of the whole or a score with an opposite; listed for the
    second, the first class has the score 0.
    """
    ids, base = set(node.ints("class_ids") or ()), reals(node, "base_values")
    if len(ids) != 1 or base.size > (0 if ids == {1} else 1):
        raise NotLoweredError("both of two classes have weights or base values")
    score = _totals(node, trees, votes[:, list(ids)], "SUM")
    is_positive = bool((reals(node, "class_weights") >= 0).all())
    label = one_of_two(node, score, labels, 0.5 if is_positive else 0)
    if ids == {1}:
        nothing = node.op("MUL", [score, node.const(np.float32(0))])
        return [label, transformed(node, joined(node, [nothing, score], -1))]
    is_logistic = node.text("post_transform", "NONE") == "LOGISTIC"
    if is_positive and not is_logistic:
        return [label, both_classes(node, score)]
    opposite = joined(node, [node.op("NEG", [score]), score], -1)
    return [label, node.op("LOGISTIC", [opposite]) if is_logistic else opposite]
