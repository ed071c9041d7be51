"""Artifacts whose hashes fit, but whose metadata or reference graphs do not, are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet import load_artifact
from circlet.commands.inspect_artifact import inspect_artifact
from circlet.errors import ArtifactError, CircletError, GraphError
from circlet.formats import dumps_whole, load_whole
from circlet.ir import Model
from tests.fuzz.mutate_artifact import Artifact, artifact_of
from tests.runtime import networks

Facts = dict[str, Any]


def with_facts(change: Callable[[Facts], object]) -> bytes:
    """The artifact of a small network with other metadata, whose hash fits."""
    artifact = Artifact(artifact_of(networks.sum_and_difference()))
    document = json.loads(artifact.text)
    change(document["metadata"])
    artifact.text = json.dumps(document).encode()
    return artifact.data()


def with_model(change: Callable[[Model], object]) -> bytes:
    """The artifact of a small network with another reference graph, whose hash fits."""
    artifact = Artifact(artifact_of(networks.sum_and_difference()))
    place = max(range(len(artifact.sections)), key=lambda n: len(artifact.sections[n]))
    model = load_whole(bytes(artifact.sections[place]))
    change(model)
    artifact.sections[place] = bytearray(dumps_whole(model))
    return artifact.data()


def test_an_artifact_that_is_put_together_again_still_runs() -> None:
    ones = np.ones((2, 3), np.float32)
    for data in (with_facts(lambda facts: None), with_model(lambda model: None)):
        results = load_artifact(data, cache=False).run([ones, ones])
        np.testing.assert_array_equal(results["sum"], ones + ones)


WRONG: dict[str, Callable[[Facts], object]] = {
    "no values": lambda f: f.pop("values"),
    "a value that is a text": lambda f: f["values"].append("x"),
    "a type that is none": lambda f: f["values"][0].update(dtype="zz"),
    "a type of many": lambda f: f["values"][0].update(dtype="f8,i4"),
    "a size that is none": lambda f: f["values"][0].update(shape=[-2]),
    "a size of a half": lambda f: f["values"][0].update(shape=[0.5]),
    "too many sizes": lambda f: f["values"][0].update(shape=[1] * 33),
    "a shape that is none": lambda f: f["values"][0].update(shape=3),
    "open where nothing is": lambda f: f["values"][0].update(open=[2]),
    "a scale that is a text": lambda f: f["values"][0].update(scale=["1"]),
    "a start that is no text": lambda f: f["values"][0].update(initial=[]),
    "a start that is no hexadecimal": lambda f: f["values"][0].update(initial="zz"),
    "an input of open size": lambda f: f["values"][f["inputs"][0]].update(shape=[2, -1]),
    "an output of open size that nothing makes": lambda f: (
        f["values"].append({**f["values"][0], "shape": [-1]}),
        f["outputs"].append(len(f["values"]) - 1),
    ),
    "inputs outside": lambda f: f["inputs"].append(99),
    "negative outputs": lambda f: f["outputs"].append(-1),
    "outputs by name": lambda f: f["outputs"].append("sum"),
    "outputs by truth": lambda f: f["outputs"].append(True),
    "a partition's input outside": lambda f: f["partitions"][0]["inputs"].append(99),
    "a partition of one input more": lambda f: f["partitions"][0]["inputs"].append(0),
    "a partition of one output less": lambda f: f["partitions"][0]["outputs"].pop(),
    "one partition more": lambda f: f["partitions"].append(f["partitions"][0]),
    "a count of operators that is a text": lambda f: f.update(operators="x"),
    "operators of a backend below 0": lambda f: f.update(operators_of={"cpu": -1}),
    "operators of no backends": lambda f: f.update(operators_of=3),
    "a partition of nothing": lambda f: f["partitions"][0].pop("ops"),
    "an operator without a name": lambda f: f["partitions"][0]["ops"].append(["ADD"]),
    "a partition that is a number": lambda f: f["partitions"].append(1),
    "a placement that is none": lambda f: f["placement"].append(["ADD"]),
    "a file of infinite size": lambda f: f.update(file_bytes=float("inf")),
    "no metadata": lambda f: f.clear(),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_metadata_that_does_not_describe_a_plan_is_refused(
    change: Callable[[Facts], object],
) -> None:
    with pytest.raises(ArtifactError):
        load_artifact(with_facts(change), cache=False).run([np.ones((2, 3), np.float32)] * 2)


def test_metadata_of_another_rank_than_its_graph_ends_in_a_code() -> None:
    artifact = Artifact(artifact_of(networks.convolutions(4, 2, 1)))
    document = json.loads(artifact.text)
    document["metadata"]["values"][0]["shape"].insert(0, 1)
    artifact.text = json.dumps(document).encode()
    with pytest.raises(CircletError):
        load_artifact(artifact.data(), cache=False).run([np.ones((1, 1, 4, 4, 2), np.float32)])


def test_metadata_that_is_nested_too_deeply_is_not_shown(tmp_path: Path) -> None:
    def nest(facts: Facts) -> None:
        for _ in range(100):
            facts["options"] = {"inner": facts["options"]}

    path = tmp_path / "deep.circlet"
    path.write_bytes(with_facts(nest))
    with pytest.raises(ArtifactError, match="too deeply"):
        inspect_artifact(path)


def test_metadata_that_is_a_list_is_refused() -> None:
    artifact = Artifact(artifact_of(networks.relu()))
    artifact.text = b'{"metadata":[],"targets":[]}'
    with pytest.raises(ArtifactError, match="incomplete"):
        load_artifact(artifact.data(), cache=False, level="O2")


def test_a_reference_graph_keeps_the_rules_of_its_operators() -> None:
    def drop(model: Model) -> None:
        model.main.ops[0].inputs.pop()

    with pytest.raises(GraphError):
        load_artifact(with_model(drop), cache=False)


def test_a_reference_graph_knows_the_rank_of_every_tensor() -> None:
    def forget(model: Model) -> None:
        made = model.main.ops[0].outputs[0]
        made.shape, made.default_shape, made.has_rank = (), None, False

    with pytest.raises(ArtifactError, match="no rank"):
        load_artifact(with_model(forget), cache=False)


def test_a_reference_graph_may_give_a_variable_that_no_operator_uses() -> None:
    def leave_alone(model: Model) -> None:
        (made,) = model.main.ops.pop().outputs
        made.is_variable = True

    ones = np.ones((2, 3), np.float32)
    results = load_artifact(with_model(leave_alone), cache=False).run([ones, ones])
    np.testing.assert_array_equal(results["difference"], 0 * ones)


def test_a_reference_graph_has_the_inputs_that_the_plan_gives_it() -> None:
    def drop(model: Model) -> None:
        model.main.outputs.pop()

    with pytest.raises(ArtifactError, match="other inputs or outputs"):
        load_artifact(with_model(drop), cache=False).run([np.ones((2, 3), np.float32)] * 2)
