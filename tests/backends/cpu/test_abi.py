from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from circlet.backends.cpu import abi, executable
from circlet.backends.cpu.abi import Operand, PlanBuilder, Space, params_bytes, params_dtype
from circlet.backends.cpu.status import Status
from circlet.errors import BackendError

HEADER = """
#define TAPS 3
/* struct commented { int32_t no; }; */
typedef struct window_params {
    int8_t first; // gap of three bytes
    int32_t size[2][TAPS]; /* height, width */
    int64_t stride;
    uint64_t count;
    float scale;
    double wide;
    uint8_t tail;
} window_params;
"""


def test_layout_is_that_of_the_c_compiler() -> None:
    layout = params_dtype(HEADER, "window_params")
    assert layout.fields is not None
    assert [(name, layout.fields[name][1]) for name in layout.names or ()] == [
        ("first", 0),
        ("size", 4),
        ("stride", 32),
        ("count", 40),
        ("scale", 48),
        ("wide", 56),
        ("tail", 64),
    ]
    assert layout.itemsize == 72
    assert layout["size"].shape == (2, 3)


def test_fields_of_structs_in_structs_are_named_after_both(tmp_path: Path) -> None:
    (tmp_path / "pair.h").write_text("struct pair { int8_t first; double second[2]; };")
    header = '#include "pair.h"\nstruct p { int32_t n; struct pair in; struct pair out; };'
    layout = params_dtype(header, "p", tmp_path)
    assert layout.fields is not None
    assert {name: row[1] for name, row in layout.fields.items()} == {
        "n": 0,
        "in_first": 8,
        "in_second": 16,
        "out_first": 32,
        "out_second": 40,
    }
    assert layout.itemsize == 56
    assert len(params_bytes(layout, out_second=[1.0, 2.0])) == 56


@pytest.mark.parametrize(
    "struct",
    [
        "struct p { int *at; };",
        "struct p { long n; };",
        "struct p { int32_t n[X]; };",
        "struct p { struct q x; };",
        "",
    ],
)
def test_what_is_no_parameter_struct_is_refused(struct: str) -> None:
    with pytest.raises(BackendError):
        params_dtype(struct, "p")


def test_structs_have_the_sizes_that_the_runtime_uses() -> None:
    sizes = {name: layout.itemsize for name, layout in abi.abi_dtypes().items()}
    assert sizes == {"circlet_plan": 96, "circlet_step": 40, "circlet_operand": 16}


@pytest.mark.parametrize(("enum", "prefix"), [(Space, "circlet_space"), (Status, "circlet_status")])
def test_enumerations_repeat_the_header(enum: type[Space] | type[Status], prefix: str) -> None:
    text = abi.ABI_HEADER.read_text()
    found = re.search(rf"enum {prefix} \{{(.*?)\}}", text, re.DOTALL)
    assert found is not None
    rows = re.findall(r"CIRCLET_(\w+) = (\d+)", found[1])
    assert {name: int(value) for name, value in rows} == {item.name: item.value for item in enum}


def test_constants_repeat_the_header() -> None:
    text = abi.ABI_HEADER.read_text()
    assert f"CIRCLET_ABI_VERSION {abi.ABI_VERSION}u" in text
    assert f"CIRCLET_PLAN_MAGIC 0x{abi.PLAN_MAGIC:X}u" in text


@pytest.mark.parametrize(
    "values", [{"no": 1}, {"count": -1}, {"first": 300}, {"size": 2**40}, {"stride": 1.5}]
)
def test_values_that_do_not_fit_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(BackendError):
        params_bytes(params_dtype(HEADER, "window_params"), **values)


def test_fields_that_are_not_named_are_zero() -> None:
    layout = params_dtype(HEADER, "window_params")
    data = params_bytes(layout, stride=-5, scale=0.1, size=[[1, 2, 3], [4, 5, 6]])
    record = np.frombuffer(data, layout)[0]
    assert (record["stride"], record["first"], record["wide"]) == (-5, 0, 0)
    assert record["scale"] == np.float32(0.1)
    assert record["size"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_equal_parameters_are_stored_once_and_aligned() -> None:
    builder = PlanBuilder()
    for params in (b"abc", b"longer than sixteen bytes", b"abc"):
        builder.add_step(0, 0, [Operand(Space.NONE)], params, 1)
    plan = builder.finish(
        input_count=0,
        output_count=0,
        unit_count=1,
        arena_bytes=0,
        scratch_bytes=0,
        constants_bytes=0,
    )
    types = abi.abi_dtypes()
    header = np.frombuffer(plan, types["circlet_plan"], 1)[0]
    steps = np.frombuffer(plan, types["circlet_step"], 3, types["circlet_plan"].itemsize)
    assert steps["params_offset"].tolist() == [0, 16, 0]
    assert header["params_offset"] % 64 == 0
    assert len(plan) == header["params_offset"] + header["params_bytes"]


def test_the_loader_knows_the_layout_of_plans_and_steps() -> None:
    types = abi.abi_dtypes()
    step = types["circlet_step"]
    assert types["circlet_plan"].itemsize == executable._PLAN_HEADER_BYTES
    assert step.itemsize == 4 * executable._STEP_WORDS
    assert step.fields is not None
    assert (step.fields["unit"][1], step.fields["work"][1]) == (0, step.itemsize - 4)
    assert executable._CONTROL == abi.CONTROL
