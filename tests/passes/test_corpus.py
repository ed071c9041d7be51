from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import Model
from circlet.ops.verify import unsupported_ops, violations
from circlet.passes import pipeline
from tests.corpora import REPRESENTATIVE, ROOT, corpus, each, models, single_ops
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import source_names

MOST_BYTES, MOST_ELEMENTS = 600_000, 300_000
SMALL = [name for name in models() if (ROOT / "models" / name).stat().st_size < MOST_BYTES]
REFUSED = {
    # The peer refuses these too.
    "LiteRT__test_testdata_blockwise_quantized.tflite": "defined",
    "LiteRT__tflite_converter_quantization_lite_testdata_mixed.tflite": "record-rules",
    "LiteRT__tflite_converter_quantization_lite_testdata_svdf_calibrated.tflite": "record-rules",
    "LiteRT__tflite_testdata_segment_sum_invalid_buffer.tflite": "defined",
    "ONE_recipe__ExpandDims_001.tflite": "record-rules",
    "ONE_recipe__ExpandDims_002.tflite": "record-rules",
    "ONE_recipe__Net_ZeroDim_001.tflite": "record-rules",
    "ONE_recipe__Reshape_003.tflite": "record-rules",
    "ONE_recipe__Slice_001.tflite": "record-rules",
    "ONE_recipe__UnidirectionalSequenceLSTM_001.tflite": "defined",
}


def supported(path: str) -> Model | None:
    try:
        model = load(corpus(path))
    except CircletError:
        return None
    return None if unsupported_ops(model) or len(model.graphs) > 1 else model


@each("name", SMALL, REPRESENTATIVE)
def test_passes_keep_results_and_origins_of_real_networks(name: str) -> None:
    model = supported(f"models/{name}")
    if model is None:
        pytest.skip("some operator has no record yet")
    graph, sources = model.main, source_names(model.main)
    small = sum(op.outputs[0].elements for op in graph.ops) < MOST_ELEMENTS
    inputs = random_inputs(graph)
    wanted = evaluate(graph, inputs) if small else []
    pipeline("O2", check=True).run(model)
    assert source_names(graph) == sources
    for got, want in zip(evaluate(graph, inputs) if small else [], wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_single_op_networks_keep_the_rules() -> None:
    corpus("singleop")
    broken: dict[str, str] = {}
    for name in single_ops():
        model = supported(f"singleop/models/{name}")
        rules = [] if model is None else [violation.rule for violation in violations(model)]
        broken |= {name: rules[0]} if rules else {}
    assert broken.items() <= REFUSED.items()
