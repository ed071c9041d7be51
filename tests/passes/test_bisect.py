"""The first pass that changes what a network computes is found, and where it does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from circlet.errors import PassError
from circlet.ir import Graph, Model, Op
from circlet.ir.builder import constant
from circlet.ops.build import builder, default_attrs
from circlet.passes import Contract, Pass, PassManager, Rewriter, make
from circlet.passes.bisect import Bisection, bisect
from circlet.passes.contract import difference
from tests.evaluate import random_inputs
from tests.passes.networks import F32, conv, image


@dataclass(frozen=True)
class WrongClamp:
    """Makes a RELU of every RELU6."""

    name = "wrong-clamp"

    def run(self, graph: Graph) -> bool:
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "RELU6":
                rewriter.replace([op], replace(op, kind="RELU"))
        return rewriter.finish()


@dataclass(frozen=True)
class Scaled:
    """Multiplies by a number near one what ABS gives."""

    name = "scaled"
    contract = Contract(tolerance=1e-2, why="it scales", grows={"operators": "it adds one"})

    def run(self, graph: Graph) -> bool:
        rewriter = Rewriter(graph)
        for op in [op for op in graph.ops if op.kind == "ABS" and op.version == 1]:
            middle = op.outputs[0].like("middle")
            inputs = [middle, constant("factor", np.float32(1.001))]
            scale = Op("MUL", [*inputs], op.outputs, default_attrs("MUL"), op.origin)
            rewriter.replace([op], replace(op, outputs=[middle], version=2), scale)
        return rewriter.finish()


def network() -> Model:
    b = builder()
    size = b.op("ABS", [conv(b, image(b, F32))], name="size")
    clamped = b.op("RELU6", [size], name="clamp")
    return b.output(b.op("NEG", [clamped], name="y")).model()


def found(*passes: Pass, tolerance: float | None = None) -> Bisection:
    model = network()
    return bisect(model, PassManager(passes, rounds=4), random_inputs(model.main), tolerance)


@pytest.mark.smoke
def test_a_pass_that_is_broken_is_named_with_the_operator_and_the_difference() -> None:
    result = found(make("remove-identity"), Scaled(), WrongClamp(), make("fuse-activation"))
    culprit = result.culprit
    assert culprit is not None
    assert (culprit.step.name, culprit.step.round) == ("wrong-clamp", 1)
    assert culprit.operators == ("RELU clamp",)
    assert culprit.tensor == "clamp"
    assert culprit.tensor_difference == culprit.step.difference > 1
    assert culprit.applied == ("remove-identity", "scaled")
    assert [step.name for step in result.steps] == ["scaled", "wrong-clamp"]


def test_a_pass_may_differ_by_what_it_declares() -> None:
    result = found(Scaled(), make("remove-dead-ops"))
    assert result.culprit is None
    (step,) = result.steps
    assert 0 < step.difference <= step.allowed == 1e-2


def test_a_tolerance_holds_against_the_network_as_it_was_given() -> None:
    result = found(Scaled(), tolerance=1e-6)
    assert result.culprit is not None and result.culprit.step.name == "scaled"
    assert result.culprit.operators == ("MUL size",)
    assert found(Scaled(), tolerance=1e-2).culprit is None


def test_levels_change_nothing() -> None:
    passes = tuple(make(name) for name in ("fuse-activation", "move-transposes", "fold-constants"))
    result = found(*passes)
    assert result.culprit is None
    assert {step.difference for step in result.steps} <= {0.0}


def test_operators_that_come_and_go_are_named_where_no_tensor_is_left() -> None:
    @dataclass(frozen=True)
    class Shifted:
        name = "shifted"

        def run(self, graph: Graph) -> bool:
            outside = graph.outputs[0]
            if outside.name == "other":
                return False
            other = outside.like("other")
            graph.ops[-1].outputs, graph.outputs[:] = [other], [other]
            graph.ops[-1].kind = "ABS"
            graph.tensors.append(other)
            return True

    culprit = found(Shifted()).culprit
    assert culprit is not None and culprit.tensor == ""
    assert culprit.operators == ("ABS y",)


def test_a_pass_that_fails_is_an_error_of_its_own() -> None:
    @dataclass(frozen=True)
    class Failing:
        name = "failing"

        def run(self, graph: Graph) -> bool:
            for op in graph.ops:
                if op.kind == "RELU6":
                    raise KeyError("limits")
            return False

    with pytest.raises(PassError, match=r"'failing' failed[\s\S]*clamp \(RELU6\)[\s\S]*KeyError"):
        found(Failing())


@pytest.mark.parametrize(
    ("result", "wanted", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([0.1], [0.2], 0.1),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [1.0, 1.0], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([np.inf], [3.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_differences_are_relative_to_the_largest_number(
    result: list[float], wanted: list[float], apart: float
) -> None:
    assert difference([np.array(result)], [np.array(wanted)]) == pytest.approx(apart)


def test_differences_of_other_types() -> None:
    large = np.array([2**62], np.int64)
    assert difference([large + 1], [large]) > 0
    three, five = np.array([3], np.int8), np.array([5], np.int8)
    assert difference([three], [five]) == pytest.approx(0.4)
    assert difference([three], [three.astype(np.int16)]) == np.inf
    assert difference([np.zeros(2)], [np.zeros(3)]) == np.inf
    text = np.array([b"a"], object)
    assert difference([text], [text.copy()]) == 0
    assert difference([text], [np.array([b"b"], object)]) == np.inf
    assert difference([], [large]) == np.inf
