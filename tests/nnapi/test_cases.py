"""The public cases of the Android Neural Networks API: some of them at each run, all if asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlet.formats.nnapi.codes import OperandCode
from circlet.formats.nnapi.description import Operand
from tests.corpora import corpus
from tests.nnapi.__main__ import main, run
from tests.nnapi.cases import Case, cases
from tests.nnapi.compare import difference, distribution_fault
from tests.nnapi.execute import run_case
from tests.nnapi.left_out import LEFT_OUT, why_left_out

STEP, NATIVE_STEP = 60, 800  # of all cases, how far apart those are that each run takes
TOLERANCE = {"float32": {"atol": 1e-5, "rtol": 0.0}, "quant8": 1, "int32": 0, "bool": 0}


@pytest.fixture(scope="module")
def public() -> list[Case]:
    return [case for case in cases(corpus("nnapi")) if not why_left_out(case.name)]


def failures(chosen: list[Case], backend: str) -> dict[str, str]:
    results = (run_case(case, backend) for case in chosen)
    return {result.case: result.reason for result in results if result.reason}


def test_some_cases_give_what_is_expected_in_numpy(public: list[Case]) -> None:
    chosen = public[::STEP]
    assert len({kind for case in chosen for kind in case.kinds}) > 15
    assert failures(chosen, "reference") == {}


def test_some_cases_give_what_is_expected_natively(public: list[Case]) -> None:
    assert failures(public[::NATIVE_STEP], "cpu") == {}


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("reference", marks=pytest.mark.slow),
        pytest.param("cpu", marks=pytest.mark.release),
    ],
)
@pytest.mark.parametrize("part", range(12))
def test_all_cases_give_what_is_expected(public: list[Case], part: int, backend: str) -> None:
    assert failures(public[part::12], backend) == {}


def test_what_is_left_out_contradicts_the_definition_and_no_more() -> None:
    """Images of 2x2 pixels: the definition's results are given where the case has other ones."""
    found = list(cases(corpus("nnapi"), next(iter(LEFT_OUT))))
    assert found
    assert all(case.kinds == ("INSTANCE_NORMALIZATION",) for case in found)
    for case in found:
        assert "elements differ" in run_case(case, "reference").reason
        (example,) = case.examples()
        image = example.inputs[0].astype(np.float64)  # channels first
        centred = image - image.mean((2, 3), keepdims=True)
        expected = example.outputs[0]
        assert expected is not None
        gamma, beta = (float(case.found["operands"][i]["data"][0]) for i in (1, 2))
        square = np.square(image).mean((2, 3), keepdims=True)
        wrong = gamma * centred / np.sqrt(square + 1e-4) + beta
        np.testing.assert_allclose(wrong.reshape(-1), expected, atol=1e-4)


def operand(kind: str, *dims: int) -> Operand:
    return Operand(OperandCode[kind], dims, name="out")


def test_results_are_compared_by_type_sizes_and_tolerance() -> None:
    out, wanted = operand("TENSOR_FLOAT32", 2, 0), np.array([1.0, np.inf])
    near, far = (np.array([[x], [np.inf]], np.float32) for x in (1.000009, 1.1))
    assert difference(out, near, wanted, TOLERANCE) == ""
    assert "1 of 2 elements differ" in difference(out, far, wanted, TOLERANCE)
    assert "type" in difference(out, near.astype("f8"), wanted, TOLERANCE)
    assert "sizes" in difference(out, near.reshape(1, 2), wanted, TOLERANCE)
    assert "3 elements" in difference(
        operand("TENSOR_FLOAT32"), np.zeros(3, "f4"), wanted, TOLERANCE
    )
    assert difference(out, far, None, TOLERANCE) == ""


@pytest.mark.parametrize(
    ("kind", "dtype", "off"), [("TENSOR_QUANT8_ASYMM", "u1", 1), ("TENSOR_INT32", "i4", 0)]
)
def test_stored_values_may_be_one_step_off_and_numbers_none(
    kind: str, dtype: str, off: int
) -> None:
    wanted = np.array([5, 9])
    for step in (0, 1, 2):
        got = (wanted + step).astype(dtype)
        assert (difference(operand(kind, 2), got, wanted, TOLERANCE) == "") == (step <= off)


def sums(expected: list[float]) -> dict[str, object]:
    """A case of an ADD."""
    kinds = ("INPUT", "INPUT", "CONSTANT", "OUTPUT")
    operands: list[dict[str, object]] = [
        {"name": f"o{i}", "type": "TENSOR_FLOAT32", "dims": [2], "lifetime": kind, "data": None}
        for i, kind in enumerate(kinds)
    ]
    operands[2] |= {"type": "INT32", "dims": [], "data": [0]}
    return {
        "case": "sums",
        "operands": operands,
        "operations": [{"op": "ADD", "inputs": [0, 1, 2], "outputs": [3]}],
        "inputs": [0, 1],
        "outputs": [3],
        "examples": [{"inputs": [[1.0, 2.0], [3.0, 4.0]], "outputs": [expected]}],
        "tolerance": TOLERANCE,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    lines = [json.dumps(sums([4.0, 6.0])), json.dumps(sums([4.0, 7.0]) | {"case": "wrong"})]
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    yield tmp_path


def test_the_command_counts_and_names_what_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "out.txt"
    monkeypatch.setattr(
        "sys.argv", ["nnapi", str(folder), "--json", str(out), "--kept", str(folder)]
    )
    assert main() == 1
    said = capsys.readouterr().out
    assert "1 of 2 cases passed" in said
    assert "FAIL wrong: o3: 1 of 2 elements differ: [1] 6.0 not 7.0" in said
    assert [row["case"] for row in json.loads(out.read_text())] == ["sums", "wrong"]


def test_cases_are_chosen_by_name_and_operation(folder: Path) -> None:
    assert [result.case for result in run(folder, "reference", "w*")[0]] == ["wrong"]
    assert run(folder, "reference", kind="MUL")[0] == []


def test_a_class_that_is_drawn_too_often_is_seen(folder: Path) -> None:
    (case, _) = cases(folder)
    (example,) = case.examples()
    logits = [np.log(np.array([[1, 3]], np.float32))]
    right, wrong = np.array([[0, 1, 1, 1]]), np.array([[0, 0, 1, 1]])
    assert distribution_fault(example.description, logits, right, 0.01) == ""
    assert "0.25 more or less often" in distribution_fault(example.description, logits, wrong, 0.01)
