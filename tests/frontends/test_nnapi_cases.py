"""NNAPI's own cases through the objects: built call by call, with buffers of the right size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.nnapi import built
from circlet.errors import NNAPIError
from circlet.formats.nnapi.description import Description
from circlet.formats.nnapi.read import description_of
from circlet.frontends.nnapi import Compilation, Execution, OperandType, ResultCode
from tests.corpora import corpus
from tests.frontends.nnapi_networks import REFERENCE
from tests.nnapi.cases import Case, cases, is_ignored
from tests.nnapi.compare import difference
from tests.nnapi.left_out import why_left_out

_EVERY = 97
_OPTIONAL = ("LSTM", "RNN", "SVDF", "LSH_PROJECTION")


def sampled(step: int) -> Iterator[Case]:
    for number, case in enumerate(cases(corpus("nnapi"))):
        if number % step == 0 and "multinomial_log_prob" not in case.tolerance:
            yield case


def run(case: Case, example: Mapping[str, Any]) -> str:
    """How the answers differ from what is expected; "" where they do not."""
    description = description_of(case.found)
    compilation = Compilation(built(description), REFERENCE)
    compilation.finish()
    left_out = set(example.get("omitted_inputs", ()))
    shapes: list[tuple[int, ...]] = []
    while True:
        execution = Execution(compilation)
        for position, given in enumerate(example["inputs"]):
            give(execution, description, position, given, position in left_out)
        results = outputs(description, shapes)
        for position, result in enumerate(results):
            execution.set_output(position, result)
        try:
            execution.compute()
        except NNAPIError as error:
            if error.result is not ResultCode.OUTPUT_INSUFFICIENT_SIZE or shapes:
                raise
            shapes = [execution.get_output_shape(i) for i in range(len(results))]
            continue
        return faults(case, example, description, execution, results)


def give(
    execution: Execution,
    description: Description,
    position: int,
    given: Sequence[Any],
    is_left_out: bool,
) -> None:
    operand = description.operands[description.inputs[position]]
    readers = [e.kind for e in description.operations if description.inputs[position] in e.inputs]
    if is_left_out or (not given and all(kind.endswith(_OPTIONAL) for kind in readers)):
        execution.set_input(position, None)
        return
    values = np.array(given, operand.code.dtype.numpy)
    dims = operand.dims
    if 0 in dims:
        known = int(np.prod([size for size in dims if size]))
        dims = tuple(size or values.size // known for size in dims)
    elif not dims and not operand.code.is_scalar:
        dims = (values.size,)
    kind = OperandType(operand.code, dims, operand.scale, operand.zero_point)
    execution.set_input(position, values.reshape(dims), kind if dims != operand.dims else None)


def outputs(description: Description, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Buffers of outputs; where sizes are open, of one element until they are known."""
    found = []
    for position, index in enumerate(description.outputs):
        operand = description.operands[index]
        dims = shapes[position] if shapes else operand.dims
        if not shapes and (0 in dims or (not dims and not operand.code.is_scalar)):
            dims = (1,)
        size = max(int(np.prod(dims)), 1)
        found.append(np.zeros(size, operand.code.dtype.numpy))
    return found


def faults(
    case: Case,
    example: Mapping[str, Any],
    description: Description,
    execution: Execution,
    results: Sequence[np.ndarray],
) -> str:
    for position, (index, wanted) in enumerate(
        zip(description.outputs, example["outputs"], strict=True)
    ):
        operand, shape = description.operands[index], execution.get_output_shape(position)
        got = results[position][: int(np.prod(shape))].reshape(shape)
        if wanted is None or is_ignored(case, index):
            continue
        kind = np.float64 if operand.code.dtype.is_float else operand.code.dtype.numpy
        flat = np.array(wanted, kind).reshape(-1)
        if fault := difference(replace(operand, dims=()), got, flat, case.tolerance):
            return fault
    return ""


def gives_booleans_a_scale(case: Case, error: NNAPIError) -> bool:
    """Whether a case has what Android refuses, and was refused: some of ONE's own cases do."""
    operands = case.found["operands"]
    scaled = any(o["type"] == "TENSOR_BOOL8" and o.get("scale") for o in operands)
    return scaled and error.result == ResultCode.BAD_DATA


def check(step: int) -> None:
    wrong: dict[str, str] = {}
    count = 0
    for case in sampled(step):
        if why_left_out(case.name):
            continue
        for example in case.found["examples"]:
            count += 1
            try:
                fault = run(case, example)
            except NNAPIError as error:
                fault = "" if gives_booleans_a_scale(case, error) else str(error)
            if fault:
                wrong[case.name] = fault
    assert not wrong, "\n".join(f"{name}: {fault}" for name, fault in wrong.items())
    assert count


def test_some_cases_pass_through_the_objects() -> None:
    check(_EVERY)


def test_operands_that_an_execution_leaves_out() -> None:
    """A gate less: what the model says fits together only without the operands left out."""
    (case,) = cases(corpus("nnapi"), "V1_0/lstm3_state")
    assert [run(case, example) for example in case.found["examples"]] == [""]


@pytest.mark.slow
def test_all_cases_pass_through_the_objects() -> None:
    check(1)
