"""Real networks after native passes keep all rules, and numpy computes the same of them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.passes import native_pipeline
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import Graph
from circlet.options import Options
from circlet.passes import PassLog
from tests.corpora import REPRESENTATIVE, corpus, each, models
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import source_names

MOST_ELEMENTS = 400_000
LARGE = (
    "deeplabv3_257_float.tflite",
    "movenet_single_pose_lightning_ptq.tflite",
    "torchaudio_conformer.tflite",
    "vww_96_float.tflite",
)
QUICK = (*REPRESENTATIVE, *LARGE)
# Float sums in another order, or products that are rounded elsewhere.
REORDERING = {"fold-scales", "conv3d-to-conv2d", "split-broadcast-pixel"}


def native_graphs(name: str) -> list[Graph]:
    """The native partitions of a network, before any pass over such."""
    options = Options(level="O1", target="x86_64_v3")
    try:
        model = load(corpus(f"models/{name}"))
        planned = plan(Template.of(model, options), options)
    except CircletError as error:
        pytest.skip(f"the network is refused: {error.code}")
    return [part.graph() for part in planned.partitions_of(planned.compilers[0])]


def is_exact(log: PassLog) -> bool:
    """Whether no pass changed the order of float sums."""
    changed = {report.name for report in log.reports if report.did_something}
    return changed.isdisjoint(REORDERING)


@pytest.mark.parametrize("level", ["O2", "Os"])
@each("name", models(), QUICK)
def test_native_passes_keep_rules_origins_and_results(name: str, level: str) -> None:
    for graph in native_graphs(name):
        small = sum(t.elements for op in graph.ops for t in op.outputs) < MOST_ELEMENTS
        inputs, sources = random_inputs(graph) if small else [], source_names(graph)
        wanted = evaluate(graph, inputs) if small else []
        log = native_pipeline(level, check=True).run(graph)
        assert source_names(graph) == sources
        for got, want in zip(evaluate(graph, inputs) if small else [], wanted, strict=True):
            if is_exact(log):
                np.testing.assert_array_equal(got, want)
            else:
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
