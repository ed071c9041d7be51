"""Cases generated from the records agree everywhere: a quick slice, and a larger one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlet.ops import all_records, find
from tests.generated.check import check
from tests.generated.compare import differences
from tests.generated.litert import Judge, is_present
from tests.generated.nodes.check import NODES, check_nodes
from tests.generated.nodes.undefined import NODE_EXCLUSIONS
from tests.generated.recipes import make_case, table_kinds
from tests.generated.report import exclusions, findings, rows, table, unjudged
from tests.generated.selection import cases, node_cases, reached, selected
from tests.generated.undefined import EXCLUSIONS
from tests.generated.unreached import UNREACHED

QUICK_NATIVE = ("ADD", "PAD", "TRANSPOSE", "SUM", "GATHER", "STRIDED_SLICE", "EQUAL", "LOGISTIC")
needs_litert = pytest.mark.skipif(not is_present(), reason="ai_edge_litert is not installed")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as opened:
        yield opened


def test_every_kind_is_reached_or_is_listed_with_a_reason() -> None:
    assert {record.kind for record in all_records() if not reached(record)} == set(UNREACHED)
    assert all(UNREACHED.values())


def test_tables_name_no_kind_that_is_not_there() -> None:
    known = {record.kind for record in all_records()}
    assert table_kinds() <= known
    assert {kind for exclusion in EXCLUSIONS for kind in exclusion.kinds} <= known
    assert {f"CUSTOM:onnx.{name}" for name in NODES} <= known
    assert {name for exclusion in NODE_EXCLUSIONS for name in exclusion.operators} <= set(NODES)


def test_the_page_lists_what_is_not_compared() -> None:
    page = Path(__file__).parents[2] / "docs" / "generated-tests.md"
    assert exclusions() in page.read_text(encoding="utf-8")


def test_the_same_seed_makes_the_same_cases() -> None:
    for record in selected(("ADD", "CONV_2D", "GATHER_ND")):
        first, second = (make_case(record, 3, 5) for _ in range(2))
        assert str(first) == str(second)
        for one, other in zip(first.inputs, second.inputs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_every_form_of_a_record_is_drawn() -> None:
    for record in selected(("CAST", "FULLY_CONNECTED")):
        forms = {make_case(record, 0, number).form.text for number in range(len(record.dtypes))}
        assert forms == set(record.dtypes)


def test_a_wrong_element_is_a_difference() -> None:
    right = np.array([1.0, np.nan, np.inf, -0.0], np.float32)
    assert differences([right], [right.copy()], by_element=True) == ""
    wrong = right + np.array([1e-3, 0, 0, 0], np.float32)
    assert "1 of 4" in differences([wrong], [right], by_element=True)
    wrong = np.array([1.0, np.nan, 3e38, 0.0], np.float32)
    assert "1 of 4" in differences([wrong], [right], by_element=True)
    assert "int32[4]" in differences([right.view(np.int32)], [right], by_element=True)


def test_records_and_sessions_agree_on_cases_of_every_kind() -> None:
    outcomes = check(cases(selected(), seed=1, count=2), ("reference",))
    assert findings(outcomes) == []
    assert sum(outcome.status == "run" for outcome in outcomes) > 200


def test_native_code_agrees_on_some_kinds() -> None:
    outcomes = check(cases(selected(QUICK_NATIVE), seed=2, count=2), ("cpu",))
    assert findings(outcomes) == []
    assert sum(outcome.native for outcome in outcomes) > len(outcomes) // 2


@needs_litert
def test_litert_agrees_on_cases_of_every_kind(judge: Judge) -> None:
    outcomes = check(cases(selected(), seed=3, count=1), (), judge)
    assert findings(outcomes) == []
    assert sum(outcome.judged == "agreed" for outcome in outcomes) > 90


@needs_litert
def test_a_judge_that_ends_is_started_again(judge: Judge) -> None:
    record = find("REVERSE_SEQUENCE")
    assert record is not None
    made = (make_case(record, 0, number) for number in range(200))
    empty = next(case for case in made if not case.refusal and case.inputs[0].size == 0)
    assert str(judge.answer(empty)).startswith(("crashed", "refused"))
    relu = find("RELU")
    assert relu is not None
    assert isinstance(judge.answer(make_case(relu, 0, 0)), list)


def test_onnx_nodes_agree_with_onnx() -> None:
    pytest.importorskip("onnx", reason="onnx is the judge")
    outcomes = check_nodes(node_cases(selected(), seed=6, count=1), ("reference",))
    assert findings(outcomes) == []
    assert sum(outcome.judged == "agreed" for outcome in outcomes) > 100


@pytest.mark.slow
def test_onnx_nodes_agree_on_many_cases() -> None:
    pytest.importorskip("onnx", reason="onnx is the judge")
    assert findings(check_nodes(node_cases(selected(), 7, 12), ("reference",))) == []
    assert findings(check_nodes(node_cases(selected(), 8, 3), ("cpu",))) == []


@pytest.mark.slow
@needs_litert
def test_everything_agrees_on_many_cases(judge: Judge) -> None:
    outcomes = check(cases(selected(), seed=4, count=10), ("reference",), judge)
    assert findings(outcomes) == []
    found = rows(outcomes)
    assert "cases" in table(found)
    assert len(unjudged(outcomes)) < len(outcomes) // 4


@pytest.mark.slow
def test_native_code_agrees_on_every_kind() -> None:
    outcomes = check(cases(selected(), seed=5, count=3), ("cpu",))
    assert findings(outcomes) == []
