"""Native plain and bidirectional recurrent layers give what their records give, states included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType
from circlet.ops.evaluate import evaluate_graph
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import each_target
from tests.backends.cpu.harness import run_native, runnable
from tests.backends.cpu.test_recurrent import check_runs
from tests.recurrent import side_by_side, steps_for
from tests.recurrent_pairs import RNN, TWO_LSTM, TWO_RNN, Pair, gru_graph, pair_graph

LSTMS = (
    Pair(TWO_LSTM),
    Pair(TWO_LSTM, time_major=True, merge=True, look=True),
    Pair(TWO_LSTM, (1, 4, 3, 33, 5), has_input=False, projection=3, clips=(0.4, 0.3), merge=True),
    Pair(TWO_LSTM, aux="input"),
)
RNNS = (
    Pair(RNN, (3, 1, 5, 17, 1)),
    Pair(sizes=(1, 4, 6, 70, 1), time_major=True, activation="RELU6"),
    Pair(TWO_RNN),
    Pair(TWO_RNN, time_major=True, merge=True),
    Pair(TWO_RNN, aux="weights", merge=True),
    Pair(TWO_RNN, aux="input", time_major=True),
)
FORMS = (
    Pair(RNN, (3, 1, 5, 17, 1)),
    *(Pair(activation=name) for name in ("NONE", "RELU", "RELU6")),
    Pair(sizes=(1, 4, 6, 70, 1), time_major=True),
    Pair(TWO_RNN),
    Pair(TWO_RNN, time_major=True, merge=True),
    Pair(TWO_RNN, aux="weights", merge=True),
    Pair(TWO_RNN, aux="weights", time_major=True),
    Pair(TWO_RNN, aux="input", time_major=True),
    *LSTMS,
    *(
        replace(form, weights=DType.INT8, asymmetric=asymmetric)
        for form in (*LSTMS, *RNNS)
        for asymmetric in (False, True)
    ),
    Pair(RNN, weights=DType.UINT8),
)


@each_target
def test_layers_give_what_their_records_give(target: str) -> None:
    check_runs([pair_graph(form, seed) for seed, form in enumerate(FORMS)], target)


@each_target
def test_gru_gives_what_its_record_gives(target: str) -> None:
    if runnable(target) is None:
        pytest.skip(f"this CPU cannot run {target}")
    sizes = ((3, 2, 4, 5), (1, 1, 3, 33), (4, 1, 7, 16))
    graph = side_by_side([gru_graph(size, bias=bias) for size in sizes for bias in (True, False)])
    (inputs,) = steps_for(graph, 1)
    wanted = evaluate_graph(graph, inputs)
    for got, expected in zip(run_native(graph, inputs, target), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (Pair(activation="RELU_N1_TO_1"), "fused activation"),
        (Pair(activation="RELU_N1_TO_1", weights=DType.INT8), "fused activation"),
        (Pair(TWO_LSTM, aux="weights"), "auxiliary input"),
    ],
)
def test_what_no_kernel_computes_is_left_to_the_record(form: Pair, words: str) -> None:
    chosen = LOWERINGS.choose(pair_graph(form).ops[0], parse_target("generic"))
    assert isinstance(chosen, str)
    assert words in chosen
