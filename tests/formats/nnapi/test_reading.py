"""Files with networks of the Android Neural Networks API: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet import Session
from circlet.commands.inspect import inspect_model
from circlet.errors import CircletError, FormatError, UnsupportedOpsError
from circlet.formats import load
from circlet.formats.nnapi.read import read_nnapi
from tests.formats.nnapi.networks import NONE, Network


def sums() -> Network:
    network = Network()
    operands = [network.input([1.0, 2.0]), network.constant([3.0, 4.0]), network.scalar(NONE)]
    network.operation("ADD", operands, (2,))
    return network


def changed(change: Any) -> bytes:
    """The file of a sound network after a change."""
    found = sums().found
    change(found)
    return json.dumps(found).encode()


def test_a_file_is_known_by_its_contents_and_runs(tmp_path: Path) -> None:
    path = tmp_path / "sums.json"
    path.write_bytes(changed(lambda found: None))
    (result,) = Session(path, backends=("reference",)).run([np.array([1, 2], np.float32)]).values()
    assert result.tolist() == [4, 6]
    model = load(path)
    assert model.source_format == "nnapi"
    assert [op.name for op in model.main.ops] == ["ADD_0"]
    found = inspect_model(path)
    assert (found.format, [row.kind for row in found.kinds]) == ("nnapi", ["ADD"])


def test_omitted_operands_and_other_keys_are_read() -> None:
    def change(found: dict[str, Any]) -> None:
        found["case"] = "sums"
        found["operands"].append(
            {"type": "TENSOR_FLOAT32", "dims": [0], "lifetime": "CONSTANT", "data": None}
        )

    assert len(read_nnapi(memoryview(changed(change))).main.ops) == 1


CHANGES = {
    "a type that is none": lambda found: found["operands"][0].update(type="TENSOR"),
    "a lifetime that is none": lambda found: found["operands"][0].update(lifetime="ALWAYS"),
    "a negative size": lambda found: found["operands"][0].update(dims=[-2]),
    "too few elements": lambda found: found["operands"][1].update(data=[1.0]),
    "no list of sizes": lambda found: found["operands"][1].update(dims=7),
    "an operand that is none": lambda found: found["operations"][0].update(inputs=[0, 1, 9]),
    "a negative operand": lambda found: found["operations"][0].update(inputs=[0, 1, -1]),
    "no operations": lambda found: found.pop("operations"),
    "a scalar of another type": lambda found: found["operands"][2].update(type="FLOAT32"),
    "a scalar with a size": lambda found: found["operands"][2].update(
        type="TENSOR_INT32", dims=[2], data=[0, 0]
    ),
    "no output": lambda found: found["operations"][0].update(outputs=[]),
    "a number out of range": lambda found: found["operands"][2].update(data=[1 << 40]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_describes_no_network_is_refused_by_code(change: Any) -> None:
    with pytest.raises(CircletError):
        read_nnapi(memoryview(changed(change)))


@pytest.mark.parametrize("text", [b"{", b"{" + b'"a":[' * 100_000, b"\xff{", b"{}"])
def test_what_is_no_json_is_refused_by_code(text: bytes) -> None:
    with pytest.raises(FormatError):
        read_nnapi(memoryview(text))


def test_every_operation_that_is_unknown_is_named() -> None:
    def change(found: dict[str, Any]) -> None:
        found["operations"][0]["op"] = "OEM_OPERATION"

    with pytest.raises(UnsupportedOpsError, match="OEM_OPERATION_0"):
        read_nnapi(memoryview(changed(change)))


def test_operations_may_stand_in_any_order_but_not_in_a_cycle() -> None:
    def change(found: dict[str, Any]) -> None:
        middle, last = len(found["operands"]), found["outputs"][0]
        kind = {"type": "TENSOR_FLOAT32", "dims": [2], "lifetime": "TEMPORARY", "data": None}
        found["operands"].append(kind)
        found["operations"][0]["inputs"][0] = middle
        found["operations"].append({"op": "RELU", "inputs": [0], "outputs": [middle]})
        assert last < middle

    kinds = [op.kind for op in read_nnapi(memoryview(changed(change))).main.ops]
    assert kinds == ["RELU", "ADD"]

    def turn(found: dict[str, Any]) -> None:
        found["operations"][0]["inputs"][0] = found["outputs"][0]

    with pytest.raises(FormatError, match="wait for each other"):
        read_nnapi(memoryview(changed(turn)))
