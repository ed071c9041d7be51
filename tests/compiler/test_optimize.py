"""`circlet.optimize`: better networks, what fails and how, and time that grows with the network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import circlet
from bench.growth import FORMS
from circlet.compiler.optimize import Optimizer
from circlet.errors import GraphError, InputError, LimitError, PassError
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.passes import Pass, file_pipeline, make
from tests.corpora import corpus, each, models
from tests.evaluate import evaluate, random_inputs
from tests.passes.networks import F32, conv, image
from tests.test_growth import calls_of
from tests.tiers import quick_of

MOST_RATIO = 2.4  # of the work for twice the network
SMALL = 100
QUICK = ("chain", "fan_out", "reshapes", "graphs")
LINEAR = quick_of([name for name in FORMS if name != "distinct_convolutions"], QUICK)


@dataclass(frozen=True)
class Reversing:
    """Leaves operators ahead of what they read."""

    name = "reversing"

    def run(self, graph: Graph) -> bool:
        graph.ops.reverse()
        return True


@dataclass(frozen=True)
class Doubling:
    """Computes the last result again, for nobody."""

    name = "doubling"

    def run(self, graph: Graph) -> bool:
        last = graph.ops[-1]
        if len(graph.ops) > 4:
            return False
        again = last.outputs[0].like("again")
        graph.tensors.append(again)
        graph.ops.append(type(last)(last.kind, last.inputs, [again], last.attrs, last.origin))
        return True


def network() -> Model:
    b = builder()
    y = b.op("RELU", [conv(b, image(b, F32))], name="clamp")
    return b.output(b.op("NEG", [y], name="y")).model("serve")


@pytest.mark.smoke
def test_a_model_stays_as_it_is_and_a_better_one_comes(tmp_path: Path) -> None:
    given = network()
    done = circlet.optimize(given)
    assert len(given.main.ops) == 3 and len(done.model.main.ops) == 2
    assert (done.before.operators, done.after.operators) == (3, 2)
    assert done.log.settled and "fuse-activation" in done.log.applied
    inputs = random_inputs(given.main)
    np.testing.assert_array_equal(
        evaluate(done.model.main, inputs)[0], evaluate(given.main, inputs)[0]
    )
    done.save(tmp_path / "o.tflite")
    again = circlet.optimize(tmp_path / "o.tflite", check=True)
    assert [op.name for op in again.model.main.ops] == ["conv+clamp", "y"]
    assert not any(report.did_something for report in again.log.reports)


@pytest.mark.parametrize(
    ("name", "format"), [("o.tflite", "tflite"), ("o.CIRCLE", "circle"), ("o.foo", ""), ("o", "")]
)
def test_a_file_is_of_the_format_of_its_name(name: str, format: str, tmp_path: Path) -> None:
    done = circlet.optimize(network())
    if format:
        done.save(tmp_path / name)
        assert circlet.load(tmp_path / name).source_format == format
        return
    for save in (done.save, partial(circlet.save, done.model)):
        with pytest.raises(InputError, match=r"names no format[\s\S]*end the name in one of .tfl"):
            save(tmp_path / name)
    assert not (tmp_path / name).exists()
    done.save(tmp_path / name, "circle")
    assert circlet.load(tmp_path / name).source_format == "circle"


def test_passes_are_given_by_name_or_as_they_are() -> None:
    done = circlet.optimize(network(), passes=["fuse-activation", make("remove-dead-ops")])
    assert done.log.applied[:2] == ("fuse-activation", "remove-dead-ops")
    with pytest.raises(InputError, match="did you mean"):
        circlet.optimize(network(), passes=["fuse-activations"])
    with pytest.raises(InputError, match="O0, O1"):
        circlet.optimize(network(), "O9")
    with pytest.raises(InputError, match="rounds=0"):
        circlet.optimize(network(), rounds=0)


def test_a_pass_that_breaks_the_network_is_named() -> None:
    passes: list[str | Pass] = ["remove-identity", Reversing()]
    with pytest.raises(PassError, match=r"'reversing' failed \(applied before it: remove-identity"):
        circlet.optimize(network(), passes=passes, check=True)
    with pytest.raises(PassError, match=r"unsound network \(applied: remove-identity, reversing"):
        circlet.optimize(network(), passes=passes, rounds=1)


def test_what_grows_undeclared_is_an_error_where_passes_are_checked() -> None:
    wanted = r"'doubling' failed[\s\S]*where: NEG y[\s\S]*operators grew from 3 to 4"
    with pytest.raises(PassError, match=wanted):
        circlet.optimize(network(), passes=[Doubling()], check=True)
    assert circlet.optimize(network(), passes=[Doubling()]).after.operators == 5


def test_an_unsound_network_is_refused_whatever_runs() -> None:
    model = network()
    model.main.ops.reverse()
    with pytest.raises(GraphError):
        circlet.optimize(model, "O0")
    with pytest.raises(GraphError, match="no graph"):
        circlet.optimize(Model([]))


def test_operators_of_unknown_types_stay_and_the_rest_is_optimised() -> None:
    model = load(corpus("models/qwen_fc_blockwise_int4.tflite"))
    done = circlet.optimize(model, check=True)
    assert [op.kind for op in done.model.main.ops] == [op.kind for op in model.main.ops]


def test_constants_of_few_bits_stay_what_they_are() -> None:
    name = "models/mnist_weight_only_dequant.tflite"
    done = circlet.optimize(corpus(name), check=True)
    assert done.after.constant_bytes <= done.before.constant_bytes


def test_metadata_that_goes_by_numbers_of_operators_is_left_out() -> None:
    model = network()
    model.metadata["OfflineMemoryAllocation"] = np.zeros(4, np.uint8)
    model.metadata["mine"] = np.zeros(4, np.uint8)
    done = circlet.optimize(model)
    assert done.dropped == ("OfflineMemoryAllocation",)
    assert list(done.model.metadata) == ["mine"]
    assert circlet.optimize(model, "O0").dropped == ()


def test_graphs_that_nothing_runs_any_more_go_and_others_stay() -> None:
    model = load(corpus("models/sdpa_composite.tflite"))
    count = len(model.graphs)
    spare = network().main
    model.graphs.append(spare)
    done = circlet.optimize(model, passes=["inline-composite", "remove-dead-ops"])
    assert len(done.model.graphs) < count + 1
    assert [graph for graph in done.model.graphs if len(graph.ops) == 3]


def test_signatures_keep_their_graphs() -> None:
    done = circlet.optimize(network())
    (signature,) = done.model.signatures
    assert signature.graph is done.model.main
    assert [*signature.outputs.values()] == done.model.main.outputs


def test_limits_bound_what_passes_make() -> None:
    b = builder()
    sizes = b.constant("sizes", np.array([64, 1024], np.int32))
    ones = b.op("FILL", [sizes, b.constant("one", np.ones((), np.float32))], name="ones")
    x = b.input("x", DType.FLOAT32, (64, 1024))
    model = b.output(b.op("ADD", [x, ones], name="y")).model()
    few = Limits(memory_bytes=1 << 10, memory_per_file_byte=0)
    folding = "fold-constants most_growth=100000"
    assert circlet.optimize(model, passes=[folding], limits=few).after.operators == 2
    assert circlet.optimize(model, passes=[folding]).after.operators == 1
    with pytest.raises(LimitError):
        circlet.optimize(dumps(model, "tflite"), limits=Limits(file_bytes=16))


@pytest.mark.parametrize("name", LINEAR)
def test_twice_the_network_is_at_most_little_more_than_twice_the_work(name: str) -> None:
    """Ten thousand operators are a matter of seconds: `python -m bench optimize`."""
    small, large = load(FORMS[name](SMALL)), load(FORMS[name](2 * SMALL))

    def run(model: Model) -> None:
        optimizer = Optimizer(model, file_pipeline("O2", "circle").passes)
        assert sum(1 for _ in optimizer.steps())
        optimizer.result()

    run(small)  # what is made once is made now
    assert calls_of(lambda: run(large)) < MOST_RATIO * calls_of(lambda: run(small))


@each(
    "name",
    models(),
    ("hello_world_int8.tflite", "kws_dscnn_int8.tflite", "norm.tflite"),
    pytest.mark.release,
)
def test_litert_answers_the_same_to_an_optimised_file(name: str, tmp_path: Path) -> None:
    if find_spec("ai_edge_litert") is None:
        pytest.skip("the package ai-edge-litert is not installed")
    from tests.peer import PeerRefusedError, run_peer

    source, target = corpus(f"models/{name}"), tmp_path / "models" / name
    target.parent.mkdir()
    (tmp_path / "golden").symlink_to(corpus("golden"))  # with the same inputs
    try:
        done = circlet.optimize(source, "O2")
        given = load(source)
        wanted = run_peer(source, given.main)
    except (circlet.CircletError, PeerRefusedError) as error:
        pytest.skip(f"it is refused as it is: {str(error)[:80]}")
    done.save(target)
    written = load(target)
    found = run_peer(target, written.main)
    for before, after in zip(given.main.outputs, written.main.outputs, strict=True):
        if before in wanted and before.dtype.is_integer:
            np.testing.assert_array_equal(found[after], wanted[before])
        elif before in wanted:
            largest = max(1.0, float(np.abs(wanted[before]).max(initial=0)))
            np.testing.assert_allclose(found[after], wanted[before], rtol=0, atol=1e-4 * largest)
