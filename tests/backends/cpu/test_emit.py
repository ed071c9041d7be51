"""Names from a model file stay inside comments of the C text, whatever they are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.emit import EmittedKernel, emit_unit
from circlet.backends.cpu.lowering import Kernel
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.plan.partition import partition
from circlet.target.targets import native_target
from tests.backends.cpu.harness import check_native

HOSTILE = [
    "*/ #error escaped /*",
    "*/",
    "/*",
    'a\n#include "/etc/passwd"\n',
    "ends with a backslash\\",
    "\\\n",
    "??/\n",
    "*\\\n/",
    "tab\t\x00\x1b[31m",
    "Überschrift \u202e \u2028 名前",
    "'\"'\"; system(1);",
    "%s%n{}",
    "",
    "x" * 5000,
]
SAFE_COMMENT = re.compile(r"/\* [A-Za-z0-9_.:;,+\-/ ]* \*/")


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("/*")]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_cannot_leave_its_comment(name: str) -> None:
    kernels = [EmittedKernel(Kernel("copy.h", "copy_rows"), (name, name))]
    text = emit_unit(kernels)
    lines = comments(text)
    assert len(lines) == 1
    assert SAFE_COMMENT.fullmatch(lines[0])
    assert text.count("\n") == emit_unit([EmittedKernel(kernels[0].kernel, ("y",))]).count("\n")


def test_a_kernel_of_many_operators_names_the_first_few() -> None:
    origins = tuple(f"op{i}" for i in range(10))
    text = emit_unit([EmittedKernel(Kernel("copy.h", "copy_rows"), origins)])
    assert comments(text) == ["/* op0, op1, op2, op3, op4, op5 and 4 more */"]


@pytest.mark.smoke
def test_equal_work_is_compiled_once() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (3,))
    for index in range(4):
        x = b.op("TANH", [x], name=f"layer{index}")
    graph = b.output(x).build()
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    (text,) = compile_partition(whole, native_target(), 1).units
    assert comments(text) == ["/* layer0, layer1, layer2, layer3 */"]


def test_a_network_of_hostile_names_compiles_and_runs() -> None:
    b = builder()
    t = b.input("*/", DType.FLOAT32, (7,))
    for name in filter(None, HOSTILE):
        t = b.op("TANH", [t], name=name)
    check_native(b.output(t).build(), [np.linspace(-2, 2, 7, dtype=np.float32)])
