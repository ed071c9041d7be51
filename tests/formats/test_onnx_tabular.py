"""The domain ai.onnx.ml, models of tables, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError, UnsupportedOpsError
from tests.formats.microsoft import Array, Case, check, check_together, model, ours

pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

_RNG = np.random.default_rng(29)
ML = "ai.onnx.ml"


def some(*sizes: int) -> Array:
    return _RNG.normal(size=sizes).astype(np.float32)


def case(kind: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> Case:
    return Case(kind, inputs, attributes, outputs=[True] * outputs, domain=ML)


def numbers(*sizes: int) -> list[float]:
    return [float(value) for value in some(*sizes).reshape(-1)]


X, WIDE = some(7, 4), some(7, 6)
WHOLE = _RNG.integers(0, 4, (5, 3)).astype(np.int64)
HOLES = np.where(_RNG.uniform(size=(5, 3)) < 0.3, np.nan, some(5, 3)).astype(np.float32)
FEATURES = {
    "Scaler": case("Scaler", X, offset=numbers(4), scale=numbers(4)),
    "Scaler of integers": case("Scaler", WHOLE, offset=[1.0], scale=[0.5]),
    "Normalizer": case("Normalizer", X, norm="MAX"),
    "Normalizer, L1": case("Normalizer", X, norm="L1"),
    "Normalizer, L2": case("Normalizer", np.abs(X), norm="L2"),
    "Normalizer of nothing": case("Normalizer", np.zeros((2, 3), np.float32), norm="L1"),
    "Binarizer": case("Binarizer", X, threshold=0.2),
    "Imputer": case(
        "Imputer", HOLES, imputed_value_floats=numbers(3), replaced_value_float=float("nan")
    ),
    "Imputer of integers": case("Imputer", WHOLE, imputed_value_int64s=[9], replaced_value_int64=2),
    "FeatureVectorizer": case("FeatureVectorizer", X, some(7, 2), inputdimensions=[4, 2]),
    "ArrayFeatureExtractor": case("ArrayFeatureExtractor", X, np.array([2, 0, 2], np.int64)),
    "ArrayFeatureExtractor of a list": case(
        "ArrayFeatureExtractor", X[0], np.array([2, 0], np.int64)
    ),
    "OneHotEncoder": case("OneHotEncoder", WHOLE, cats_int64s=[0, 2, 3], zeros=1),
    "LabelEncoder": case(
        "LabelEncoder", WHOLE, keys_int64s=[3, 1], values_floats=[0.5, 2.5], default_float=-2.0
    ),
    "LabelEncoder of floats": case(
        "LabelEncoder",
        WHOLE.astype(np.float32),
        keys_floats=[3.0, 1.0],
        values_int64s=[7, 8],
        default_int64=-5,
    ),
}

LABELS = {"classlabels_ints": [5, 7, 9]}
LINEAR = {
    "LinearRegressor": case("LinearRegressor", X, coefficients=numbers(4), intercepts=[0.5]),
    "LinearRegressor of targets": case(
        "LinearRegressor", X, coefficients=numbers(12), intercepts=numbers(3), targets=3
    ),
    "LinearRegressor, LOGISTIC": case(
        "LinearRegressor",
        X,
        coefficients=numbers(8),
        intercepts=numbers(2),
        targets=2,
        post_transform="LOGISTIC",
    ),
    "LinearClassifier": case(
        "LinearClassifier",
        X,
        outputs=2,
        coefficients=numbers(12),
        intercepts=numbers(3),
        post_transform="SOFTMAX",
        **LABELS,
    ),
    "LinearClassifier, LOGISTIC": case(
        "LinearClassifier",
        X,
        outputs=2,
        coefficients=numbers(12),
        intercepts=numbers(3),
        post_transform="LOGISTIC",
        **LABELS,
    ),
    "LinearClassifier of two": case(
        "LinearClassifier",
        X,
        outputs=2,
        coefficients=numbers(4),
        intercepts=[0.2],
        post_transform="LOGISTIC",
        classlabels_ints=[0, 1],
    ),
    "LinearClassifier of two, both given": case(
        "LinearClassifier",
        X,
        outputs=2,
        coefficients=numbers(8),
        intercepts=[0.2, -0.2],
        post_transform="NONE",
        classlabels_ints=[4, 2],
    ),
    **{
        f"SVMRegressor, {kernel}": case(
            "SVMRegressor",
            np.abs(X),
            n_supports=3,
            support_vectors=[abs(value) for value in numbers(12)],
            coefficients=numbers(3),
            rho=[0.3],
            kernel_type=kernel,
            kernel_params=[0.4, 0.5, 2.0],
        )
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")
    },
    "SVMRegressor of coefficients": case(
        "SVMRegressor",
        X,
        n_supports=0,
        coefficients=numbers(4),
        rho=[0.3],
        kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0],
    ),
    "SVMRegressor of one class": case(
        "SVMRegressor",
        X,
        n_supports=2,
        support_vectors=numbers(8),
        coefficients=[1.0, -1.0],
        rho=[0.1],
        kernel_type="RBF",
        kernel_params=[0.4, 0.0, 3.0],
        one_class=1,
    ),
}
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(
    count: int, depth: int, columns: int, modes: tuple[str, ...], *, tracks: bool = False
) -> tuple[dict[str, list[Any]], list[tuple[int, int]]]:
    """Random trees as lists of nodes, and their leaves."""
    lists: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in (
            "treeids",
            "nodeids",
            "featureids",
            "values",
            "modes",
            "truenodeids",
            "falsenodeids",
        )
    }
    if tracks:
        lists["nodes_missing_value_tracks_true"] = []
    leaves = []
    for tree in range(count):
        waiting, count_of_nodes = [(0, depth)], 1
        while waiting:
            own, left = waiting.pop(0)
            is_leaf = not left or (own > 2 and _RNG.uniform() < 0.3)
            children = (0, 0) if is_leaf else (count_of_nodes, count_of_nodes + 1)
            if is_leaf:
                leaves.append((tree, own))
            else:
                waiting += [(child, left - 1) for child in children]
                count_of_nodes += 2
            mode = "LEAF" if is_leaf else str(_RNG.choice(modes))
            limit = float(np.float32(np.round(_RNG.normal(), 1)))
            values = [tree, own, int(_RNG.integers(columns)), limit, mode, *children]
            values += [int(_RNG.integers(2))] * tracks
            for kept, value in zip(lists.values(), values, strict=True):
                kept.append(value)
    return lists, leaves


def regressor(
    count: int,
    modes: tuple[str, ...] = _MODES[:1],
    x: Array | None = None,
    *,
    tracks: bool = False,
    targets: int = 1,
    **attributes: Any,
) -> Case:
    lists, leaves = trees(count, 4, 6, modes, tracks=tracks)
    votes = [(*leaf, target) for leaf in leaves for target in range(targets)]
    x = np.round(some(40, 6), 1) if x is None else x
    return case(
        "TreeEnsembleRegressor",
        x,
        target_treeids=[vote[0] for vote in votes],
        target_nodeids=[vote[1] for vote in votes],
        target_ids=[vote[2] for vote in votes],
        target_weights=numbers(len(votes)),
        n_targets=targets,
        **{**lists, **attributes},
    )


def classifier(classes: int, *, positive: bool = False, one: int = -1, **more: Any) -> Case:
    lists, leaves = trees(4, 3, 6, _MODES[:1])
    weights = numbers(len(leaves))
    ids = [one if one >= 0 else index % classes for index in range(len(leaves))]
    return case(
        "TreeEnsembleClassifier",
        np.round(some(40, 6), 1),
        outputs=2,
        class_treeids=[leaf[0] for leaf in leaves],
        class_nodeids=[leaf[1] for leaf in leaves],
        class_ids=ids,
        class_weights=[abs(w) / 4 for w in weights] if positive else weights,
        classlabels_int64s=[3, 5, 8][:classes],
        **lists,
        **more,
    )


MISSING = np.where(_RNG.uniform(size=(40, 6)) < 0.3, np.nan, some(40, 6)).astype(np.float32)
ENSEMBLES = {
    "a tree": regressor(1),
    "trees": regressor(5, base_values=[0.5]),
    "an average": regressor(5, aggregate_function="AVERAGE"),
    "the least": regressor(5, aggregate_function="MIN"),
    "the greatest of targets": regressor(5, aggregate_function="MAX", targets=3),
    "targets": regressor(4, targets=2, base_values=[0.1, -0.4]),
    "all modes": regressor(6, _MODES),
    "what is missing": regressor(6, _MODES[:4], MISSING, tracks=True),
    "what is missing, untracked": regressor(6, _MODES[:2], MISSING),
    "a transform": regressor(3, targets=2, post_transform="LOGISTIC"),
    "classes": classifier(3),
    "classes, SOFTMAX": classifier(3, post_transform="SOFTMAX", base_values=[0.1, 0.2, 0.3]),
    **{
        f"two classes by {one}, {'shares' if positive else 'scores'}, {transform}": classifier(
            2, one=one, positive=positive, post_transform=transform
        )
        for one in (0, 1)
        for positive in (False, True)
        for transform in ("NONE", "LOGISTIC", "SOFTMAX")
    },
    "two classes of a base": classifier(2, one=0, base_values=[0.2]),
}
ALL = FEATURES | LINEAR | {f"trees: {name}": made for name, made in ENSEMBLES.items()}


@pytest.mark.parametrize("name", ALL)
def test_an_operator_gives_what_onnx_runtime_gives(name: str) -> None:
    check(ALL[name])


@pytest.mark.parametrize("name", ["Scaler", "LinearClassifier of two", "trees: trees"])
def test_rows_may_be_open(name: str) -> None:
    from onnx import ModelProto

    made = ModelProto.FromString(model([ALL[name]]))
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    feeds = ALL[name].feeds()
    few = {key: x[:3] for key, x in feeds.items()}
    for given in (feeds, few):
        found = ours(made.SerializeToString(), given, ["reference"])
        expected = ours(model([ALL[name]]), feeds, ["reference"])
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y[: len(x)], rtol=1e-6)


@pytest.mark.slow
def test_all_run_natively() -> None:
    """But what makes FLOAT32 of integers of 64 bits."""
    session = check_together(list(ALL.values()))
    assert {row["kind"] for row in session.placement if row["backend"] != "cpu"} <= {"CAST"}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            case(
                "LinearClassifier",
                X,
                outputs=2,
                coefficients=numbers(8),
                intercepts=[0.1, 0.2],
                classlabels_strings=["a", "b"],
            ),
            "labels of classes are texts",
        ),
        (
            case("LinearRegressor", X, coefficients=numbers(4), post_transform="LOGISTIC"),
            "a single target",
        ),
        (classifier(2), "both of two classes"),
        (regressor(1, targets=2, post_transform="PROBIT"), "PROBIT"),
    ],
)
def test_forms_that_are_refused_say_why(made: Case, reason: str) -> None:
    with pytest.raises(UnsupportedOpsError, match=reason):
        ours(model([made]), made.feeds(), ["reference"])


def test_a_map_of_scores_is_the_table_of_scores() -> None:
    """As `sklearn` writes classifiers: their last node makes a list of maps."""
    from onnx import helper

    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain=ML,
            coefficients=numbers(12),
            intercepts=numbers(3),
            post_transform="SOFTMAX",
            **LABELS,
        ),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, classlabels_int64s=[5, 7, 9]),
    ]
    ends = [helper.make_tensor_value_info("label", 7, [7])]
    kind = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, None))
    ends.append(helper.make_value_info("maps", helper.make_sequence_type_proto(kind)))
    x = helper.make_tensor_value_info("x", 1, [7, 4])
    graph = helper.make_graph(nodes, "g", [x], ends)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    data = helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
    label, scores = ours(data, {"x": X}, ["reference"])
    expected, maps = onnxruntime.InferenceSession(data).run(None, {"x": X})
    np.testing.assert_array_equal(label, expected)
    np.testing.assert_allclose(scores, [list(row.values()) for row in maps], rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"nodes_truenodeids": [9, 0, 0]},
        {"nodes_truenodeids": [0, 0, 0]},
        {"nodes_featureids": [8, 0, 0]},
        {"nodes_values": [1.0]},
        {"nodes_modes": ["BRANCH_ODD", "LEAF", "LEAF"]},
        {"target_nodeids": [7, 2]},
        {"target_ids": [0, 4]},
    ],
    ids=str,
)
def test_trees_that_contradict_themselves_are_errors(change: dict[str, Any]) -> None:
    lists: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
    }
    check(case("TreeEnsembleRegressor", X, n_targets=1, **lists))
    wrong = case("TreeEnsembleRegressor", X, n_targets=1, **{**lists, **change})
    with pytest.raises(CircletError, match="o0"):
        ours(model([wrong]), wrong.feeds(), ["reference"])
