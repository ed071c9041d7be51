"""Native layers of plain, GRU and LSTM cells give what the records of ONNX's operators give."""

from __future__ import annotations

from functools import lru_cache

import pytest

from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.target.targets import parse_target
from tests.backends.cpu.cases import SideBySide, each_width, each_width_of
from tests.recurrent_layers import DYNAMIC, GATES, Layer, layer_graph

HARD = ("HardSigmoid", "Tanh")
TWICE = (0.3, 0.0, 0.3, 0.0)  # constants of both functions of both directions
CASES = (
    *(Layer(kind, (5, 1, 7, 20)) for kind in GATES),
    *(Layer(kind, (2, 1, 3, 1), attrs={"direction": "reverse"}) for kind in GATES),
    *(Layer(kind, both=True, lengths=(4, 1, 0), first=True) for kind in GATES),
    *(Layer(kind, both=True, first=True, attrs={"layout": 1}, outputs=1) for kind in GATES),
    *(Layer(kind, (3, 1, 5, 150), bias=False, attrs={"clip": 0.3}) for kind in GATES),
    Layer("GRU", both=True, lengths=(4, 2, 9), attrs={"linear_before_reset": 1}),
    Layer("GRU", (3, 1, 5, 64), attrs={"linear_before_reset": 1, "clip": 0.4}),
    Layer("LSTM", both=True, looks=True, attrs={"clip": 0.5}),
    Layer("LSTM", looks=True, lengths=(2, 3, 4), attrs={"input_forget": 1}),
    Layer("RNN", attrs={"activations": ("Relu",)}, outputs=2),
    Layer("LSTM", looks=True, attrs={"activations": (*HARD, "Tanh"), "clip": 1.5}),
    Layer("LSTM", attrs={"activations": (*HARD, "Tanh"), "input_forget": 1}),
    Layer("GRU", both=True, attrs={"activations": (*HARD, *HARD), "activation_alpha": TWICE}),
    Layer("GRU", attrs={"activations": HARD, "activation_beta": (0.1, 0.0)}),
)


NAMED = {f"{layer.kind}{index}": layer for index, layer in enumerate(CASES)}
BOTH = list(NAMED)[2 * len(GATES) : 3 * len(GATES)]  # both directions, and lengths


@lru_cache(maxsize=2)
def _compiled() -> SideBySide[str]:
    return SideBySide(NAMED, lambda name: layer_graph(NAMED[name]), apart=BOTH)


@each_width_of("name", NAMED, BOTH)
def test_a_layer_gives_what_its_record_gives(name: str, target: str) -> None:
    _compiled().check(name, target)


def test_tasks_of_directions_and_batches_run_on_two_threads() -> None:
    layer = Layer("GRU", both=True, lengths=(4, 1, 2), first=True)
    SideBySide([0], lambda _: layer_graph(layer), threads=2).check(0, "native")


STORED = SideBySide(DYNAMIC, lambda case: DYNAMIC[case](), threads=2)


@each_width
@pytest.mark.parametrize("case", DYNAMIC)
def test_weights_of_8_bits_see_what_8_bits_leave(case: str, target: str) -> None:
    """Of several sequences too, by one scale for the states of all."""
    STORED.check(case, target)


def _op(layer: Layer) -> Op:
    return layer_graph(layer)[0].ops[0]


def _refusal(op: Op) -> str:
    chosen = LOWERINGS.choose(op, parse_target("generic"))
    return chosen if isinstance(chosen, str) else ""


@pytest.mark.parametrize(
    "names",
    [("Softsign", "Tanh", "Tanh"), ("Sigmoid", "Tanh", "Relu"), ("Sigmoid",)],
    ids="-".join,
)
def test_other_activation_functions_are_left_to_the_record(names: tuple[str, ...]) -> None:
    assert "activation functions" in _refusal(_op(Layer("LSTM", attrs={"activations": names})))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (
            Layer(
                "GRU",
                both=True,
                attrs={"activations": (*HARD, *HARD), "activation_alpha": (0.3, 0.0, 0.2, 0.0)},
            ),
            "both directions differ",
        ),
        (
            Layer(
                "LSTM",
                attrs={
                    "activations": (*HARD, "Tanh"),
                    "activation_beta": (0.4, 0.0, 0.0),
                    "input_forget": 1,
                },
            ),
            "not at a half for 0",
        ),
    ],
    ids=["directions", "coupled"],
)
def test_hard_gates_of_other_lines_are_left_to_the_record(layer: Layer, why: str) -> None:
    assert why in _refusal(_op(layer))


def test_weights_that_a_run_computes_are_left_to_the_record() -> None:
    op = _op(Layer("RNN"))
    op.inputs[2] = Tensor("computed", DType.FLOAT32, (1, 13, 13))
    assert "must be constant" in _refusal(op)


@pytest.mark.parametrize("index", [1, 2, 3])
def test_operands_that_do_not_fit_each_other_never_reach_a_kernel(index: int) -> None:
    op = _op(Layer("GRU"))
    tensor = op.inputs[index]
    assert tensor is not None
    assert tensor.data is not None
    op.inputs[index] = constant("short", tensor.data[..., :-1].copy())
    assert "do not fit" in _refusal(op)
