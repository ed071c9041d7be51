"""Stages of a compilation as text and for GraphViz."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from circlet.commands.stages import StageRequest, dump_stage
from circlet.errors import InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.options import Options
from tests.cli.call import circlet

MODEL = """{
  %2 = @0_ADD(%0, %1)
  %3 = @1_TANH(%2)
}
inputs: %0
outputs: %3
%0: FLOAT32[1,4] x
%1: FLOAT32[4] constant w
%2: FLOAT32[1,4] sum
%3: FLOAT32[1,4] y
"""
DOT = r"""digraph D {
  operand0[colorscheme="set18" fillcolor="white" label="0" shape="doublecircle" style="filled"];
  operand2[colorscheme="set18" fillcolor="white" label="2" shape="ellipse" style="filled"];
  operand3[colorscheme="set18" fillcolor="white" label="3" shape="doublecircle" style="filled"];
  operation0[colorscheme="pastel18" fillcolor="white" label="0 : ADD" shape="rect" style="filled"];
  operation1[colorscheme="pastel18" fillcolor="white" label="1 : TANH" shape="rect" style="filled"];
  operand0 -> operation0;
  operation0 -> operand2;
  operand2 -> operation1;
  operation1 -> operand3;
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 4))
    total = b.op("ADD", [x, b.constant("w", np.arange(1, 5, dtype=np.float32))], name="sum")
    path = tmp_path / "model.tflite"
    path.write_bytes(dumps(b.output(b.op("TANH", [total], name="y")).model(), "tflite"))
    return path


def text(model: Path, stage: str, format: str = "text", **changes: object) -> str:
    return dump_stage(StageRequest(model, stage, format, **changes)).text  # type: ignore[arg-type]


def test_a_model_is_in_the_text_form_of_one(model: Path) -> None:
    assert text(model, "model") == MODEL


def test_a_model_is_drawn_as_one_draws_it(model: Path) -> None:
    assert text(model, "model", "dot") == DOT
    with_constants = text(model, "model", "dot", with_constants=True)
    assert "operand1 -> operation0;" in with_constants


def test_the_lowered_graph_says_which_backend_has_each_operator(model: Path) -> None:
    options = Options(backends=("reference",))
    lowered = text(model, "lowered", options=options)
    assert "@0_ADD(%0, %1) [reference]" in lowered
    drawn = text(model, "lowered", "dot", options=options)
    assert re.search(r'operation0\[.*fillcolor="2" label="0 : ADD\\n\[reference\]"', drawn)


def test_a_plan_has_steps_and_memory(model: Path) -> None:
    plan = text(model, "plan", options=Options(level="O0"))
    assert plan.startswith(
        "partition 0 [cpu]: 2 fused operators\n{\n  %2 = @0_ADD(%0, %1) from sum\n"
    )
    assert "    step 0: " in plan
    assert re.search(r"^memory: \d+ bytes, planned by \w+$", plan, re.MULTILINE)
    assert re.search(r"^  \d+ \+ 16: sum, steps 0 to 1$", plan, re.MULTILINE)


def test_values_that_change_backends_are_named(tmp_path: Path) -> None:
    b = builder()
    y = b.op("RELU", [b.input("x", DType.FLOAT32, (1, 4))], name="y")
    number = b.constant("number", np.int32(3))
    b.output(b.op("MULTINOMIAL", [y, number], dtype=DType.INT64))
    path = tmp_path / "model.tflite"
    path.write_bytes(dumps(b.model(), "tflite"))
    plan = text(path, "plan")
    assert "[cpu]" in plan
    assert "[reference]" in plan
    assert re.search(r"^permute .*: cpu to reference, FLOAT32$", plan, re.MULTILINE)


def test_a_plan_is_no_graph(model: Path) -> None:
    with pytest.raises(InputError):
        text(model, "plan", "dot")
    with pytest.raises(InputError):
        text(model, "nothing")


def test_the_command_prints_stages(model: Path) -> None:
    assert circlet("dump", model, "--stage", "model").stdout == MODEL
    found = json.loads(circlet("dump", model, "--stage", "model", "--json").stdout)
    assert found["text"] == MODEL
    assert circlet("dump", model, "--stage", "model", "--format", "dot").stdout == DOT


@pytest.mark.parametrize(
    "given",
    [("--format", "dot"), ("--stage", "model", "--constants"), ("--stage", "model", "--text")],
)
def test_options_that_do_not_go_together_are_refused(model: Path, given: tuple[str, ...]) -> None:
    assert circlet("dump", model, *given).exit_code == 2
