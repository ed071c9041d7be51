"""Loops of which nothing bounds the turns: sessions have as much room for them as runs need."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import circlet
from circlet.compiler.compile import compile_model
from circlet.errors import CancelledError, LimitError
from circlet.ir import DType, Model, Tensor
from circlet.ir.builder import Builder
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.options import Options
from circlet.runtime.load_artifact import load_artifact
from circlet.runtime.resizing import Resizer
from tests.plan.loops import loop, number

FIRST = 64


def counting(*, sums: bool = False) -> Model:
    """The numbers from 0 to before an input, joined one by one; or their sum."""

    def condition(b: Builder, variables: list[Tensor]) -> Tensor:
        return b.op("LESS", variables[:2], dtype=DType.BOOL)

    def turn(b: Builder, variables: list[Tensor]) -> list[Tensor]:
        count, end, numbers = variables
        row = b.op("RESHAPE", [count, b.constant("one row", np.array([1], np.int32))])
        row.shape = (1,)
        longer = b.op("CONCATENATION", [numbers, row], ConcatenationAttrs(0))
        longer.shape = (None,)
        return [b.op("ADD", [count, number(b, 1)]), end, longer]

    main = builder("main")
    end = main.input("end", DType.INT64, ())
    given = [main.constant("zero", np.array(0)), end, main.constant("none", np.zeros(0, np.int64))]
    made = loop(given, condition, turn)
    main.op_many("WHILE", given, made.outputs)
    result = made.outputs[2]
    if sums:
        axes = main.constant("axes", np.array([0], np.int32))
        result = main.op("SUM", [result, axes])
        result.shape = ()
    model = main.output(result).model()
    model.main.ops[0].regions = made.regions
    model.graphs += made.regions
    return model


def session(*, sums: bool = False, limits: Limits = DEFAULT_LIMITS) -> circlet.Session:
    return circlet.Session(counting(sums=sums), cache=False, limits=limits, threads=1)


def counted(opened: circlet.Session, end: int) -> np.ndarray:
    (found,) = opened.run([np.array(end)]).values()
    return found


def backends(opened: circlet.Session) -> set[object]:
    return {row["backend"] for row in opened.placement}


def test_a_session_has_as_much_room_as_its_runs_need() -> None:
    opened = session()
    for end, room in ((3, 1), (FIRST, 1), (FIRST + 1, 4), (0, 4), (2000, 64), (9, 64)):
        assert counted(opened, end).tolist() == [*range(end)]
        assert opened.options.loop_room == FIRST * room
        assert backends(opened) == {"cpu"}


def test_threads_that_need_more_room_make_it_once() -> None:
    opened = session()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda end: counted(opened, end), [FIRST + 5] * 8))
    assert all(array.tolist() == [*range(FIRST + 5)] for array in found)
    assert opened.options.loop_room == 4 * FIRST


def test_a_bound_call_has_as_much_room_as_it_needs() -> None:
    opened = session(sums=True)
    end = np.array(5)
    calls = [opened.bind([end]) for _ in range(2)]
    for wanted in (5, 3000, 7):
        end[...] = wanted
        for call in calls:
            call()
            assert call.outputs[0] == sum(range(wanted))
    assert opened.options.loop_room == 64 * FIRST


def test_runs_are_cancelled_while_there_is_made_room(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = session(sums=True)
    end = np.array(FIRST + 1)
    call, plan = opened.bind([end]), Resizer.opened
    for cancel, run in ((call.cancel, call), (opened.cancel, lambda: counted(opened, 5 * FIRST))):

        def planned(
            resizer: Resizer, options: Options, stop: Callable[[], None] = cancel
        ) -> object:
            stop()
            return plan(resizer, options)

        monkeypatch.setattr(Resizer, "opened", planned)
        with pytest.raises(CancelledError):
            run()
        assert counted(opened, 3) == 3


def test_what_needs_too_much_room_goes_to_numpy() -> None:
    opened = session(limits=DEFAULT_LIMITS._replace(tensor_bytes=8 * 4 * FIRST))
    assert len(counted(opened, 2 * FIRST)) == 2 * FIRST
    assert backends(opened) == {"cpu"}
    with pytest.raises(LimitError, match="bytes"):
        counted(opened, 4 * FIRST + 1)
    assert "reference" in backends(opened)
    assert len(counted(opened, 2 * FIRST)) == 2 * FIRST


def test_a_loop_that_does_not_end_passes_the_limit_of_turns() -> None:
    opened = session(limits=DEFAULT_LIMITS._replace(loop_turns=1000))
    assert len(counted(opened, 1000)) == 1000
    with pytest.raises(LimitError, match="did not end"):
        counted(opened, 10**9)


def test_without_a_session_such_loops_stay_in_numpy() -> None:
    opened = load_artifact(compile_model(counting(), Options()), threads=1)
    assert "reference" in backends(opened)
    assert len(counted(opened, FIRST + 1)) == FIRST + 1


def test_a_network_without_such_loops_has_no_room_to_outgrow() -> None:
    assert session().opened.metadata["loop_room"] == FIRST
    b = builder()
    x = b.input("x", DType.FLOAT32, (2,))
    plain = circlet.Session(b.output(b.op("NEG", [x])).model(), cache=False, threads=1)
    assert plain.opened.metadata["loop_room"] == 0
