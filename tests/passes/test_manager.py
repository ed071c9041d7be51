from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from circlet.errors import GraphError, InputError, PassError
from circlet.ir import DType, Graph, Model
from circlet.ops.build import builder
from circlet.passes import PassManager, make, pass_names, pipeline
from tests.passes.harness import kinds_of
from tests.passes.networks import F32, conv, image

pytestmark = pytest.mark.smoke


@dataclass(frozen=True)
class Scramble:
    name = "scramble"

    def run(self, graph: Graph) -> bool:
        graph.ops.reverse()
        return True


@dataclass(frozen=True)
class Stumble:
    name = "stumble"

    def run(self, graph: Graph) -> bool:
        raise KeyError("foot")


def network() -> Model:
    b = builder()
    amounts = b.constant("amounts", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    t = b.op("PAD", [image(b, F32), amounts], name="pad")
    y = b.op("RELU", [conv(b, t)], name="relu")
    sizes = b.constant("sizes", np.array([1, 144], np.int32))
    return b.output(b.op("RESHAPE", [y, sizes], name="flat")).model("serve")


def test_level_zero_changes_nothing() -> None:
    model = network()
    before = list(model.main.ops)
    assert pipeline("O0").run(model).reports == []
    assert model.main.ops == before


def test_levels_shrink_a_network_and_log_source_names() -> None:
    model = network()
    log = pipeline("O2", check=True).run(model)
    assert kinds_of(model.main) == ["CONV_2D", "RESHAPE"]
    assert model.main.ops[0].origin.name == "pad+conv+relu"
    fused = next(report for report in log.reports if report.name == "fuse-activation")
    assert fused.removed == ("CONV_2D pad+conv", "RELU relu")
    assert fused.added == ("CONV_2D pad+conv+relu",)
    assert "- RELU relu" in str(log)


def test_broken_result_names_the_pass_and_those_before() -> None:
    manager = PassManager((make("remove-identity"), Scramble()), check=True)
    with pytest.raises(PassError, match=r"'scramble' failed \(applied before it: remove-identity"):
        manager.run(network())


def test_crash_names_the_pass() -> None:
    with pytest.raises(PassError, match=r"'stumble' failed[\s\S]*KeyError"):
        PassManager((Stumble(),)).run(network())


def test_broken_network_is_refused_before_the_first_pass() -> None:
    model = network()
    model.main.ops.reverse()
    with pytest.raises(GraphError):
        PassManager((), check=True).run(model)


def test_every_registered_pass_has_its_name() -> None:
    assert [make(name).name for name in pass_names()] == list(pass_names())


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'fuse-pad'"):
        make("fuse-pads")
    with pytest.raises(InputError, match="no such option"):
        make("fuse-pad", depth=3)
    with pytest.raises(InputError, match="O0, O1, O2"):
        pipeline("O7")


def test_unrelated_types_are_untouched() -> None:
    b = builder()
    graph = b.output(b.op("CUSTOM", [b.input("x", DType.INT4, (3,))], shape=(3,))).build()
    graph.ops[0].custom_code = "Mystery"
    assert pipeline("O2", check=True).run(graph).applied.count("fuse-pad") == 1
