"""AMX tiles: on every machine through plain C that does what the instructions do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlet.backends.cpu.compile import compile_partition
from circlet.backends.cpu.executable import Binding, Executable
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.errors import CompileError, TargetError
from circlet.ir import DType, Graph, Quantization
from circlet.ops.build import builder
from circlet.ops.evaluate import evaluate_graph
from circlet.plan.partition import partition
from circlet.target.features import host_features
from circlet.target.targets import Target, parse_target
from tests.backends.cpu import native
from tests.backends.cpu.harness import check_native, runnable, runtime
from tests.backends.cpu.q8_graphs import (
    Conv,
    Rows,
    conv_graph,
    conv_op,
    random_bytes,
    rows_graph,
)
from tests.tiers import slow

U8 = DType.UINT8
ASYMMETRIC = (17, 151, 120)
EMULATED = "#define CIRCLET_AMX_EMULATION 1\n"

CONVS = [
    Conv((1, 6, 9, 64), 32, (1, 1)),
    Conv((1, 7, 7, 96), 40, (1, 1), per_channel=True, activation="RELU6"),
    Conv((1, 8, 8, 100), 130, (1, 1), zeros=(-128, 0, 127)),
    Conv((2, 5, 17, 64), 48, per_channel=True),
    Conv((1, 6, 33, 48), 33, stride=(2, 2), activation="RELU"),
    Conv((1, 9, 40, 64), 16, (3, 2), dilation=(2, 2)),
    Conv((1, 4, 11, 32), 70, padding="VALID", bias=False),
    Conv((1, 4, 12, 200), 64, padding="VALID"),
    Conv((1, 5, 20, 66), 24, (1, 1), stride=(1, 2), dtype=U8, zeros=ASYMMETRIC),
    Conv((1, 4, 35, 40), 35, dtype=U8, zeros=(3, 128, 9), activation="RELU"),
    Conv((1, 6, 12, 160), 20, (1, 1), dtype=U8, zeros=(0, 255, 255), output_scale=0.00005),
    Conv((1, 12, 12, 64), 64, (1, 1), output_scale=1e7),
]
ROWS = [
    Rows((9, 64, 10), zeros=(-128, 0, 127)),
    Rows((20, 100, 40), zeros=(5, 0, -128), activation="RELU", per_channel=True),
    Rows((70, 68, 33), zeros=(127, -7, 3)),
    Rows((8, 640, 128), DType.UINT8, (3, 130, 11), "RELU6"),
]


def with_tiles(name: str) -> Target:
    target = runnable(name)
    if target is None:
        pytest.skip(f"this CPU cannot run {name}")
    return Target.of(target.arch, (*target.features, "amx_int8"))


def run_emulated(graph: Graph, inputs: Sequence[np.ndarray], name: str) -> list[np.ndarray]:
    return emulated(graph, inputs, name, with_tiles(name))


def emulated(
    graph: Graph,
    inputs: Sequence[np.ndarray],
    name: str,
    target: Target,
    precision: str = "f32",
    threads: int = 1,
) -> list[np.ndarray]:
    """The outputs of code for a target with tiles, run where there are none."""
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    compiled = compile_partition(whole, target, 1, precision=precision)
    plain = parse_target(name)
    images = compile_units([UnitSource(EMULATED + text, plain) for text in compiled.units])
    executable = Executable(runtime(), compiled.plan, compiled.constants, images)
    made = {t: np.zeros(t.static_shape, t.dtype.numpy) for t in whole.outputs}
    given = dict(zip(graph.inputs, inputs, strict=True))
    Binding(executable, [given[t] for t in whole.inputs], list(made.values()), threads).run()
    return [made[t] for t in graph.outputs]


def taken(graph: Graph, target: Target) -> set[str]:
    rows = (LOWERINGS.choose(op, target) for op in graph.ops)
    return {row if isinstance(row, str) else row.name for row in rows}


def narrow_graph(rng: np.random.Generator) -> tuple[Graph, list[np.ndarray]]:
    """Rows of three pixels each, because the next layer wants a border around them."""
    made = builder()
    first = Conv((1, 8, 3, 64), 64, (1, 1))
    image = made.input("x", first.dtype, first.image, Quantization.per_tensor(0.02, -3))
    middle = conv_op(made, first, image, rng, "middle")
    made.output(conv_op(made, replace(first, taps=(3, 3), filters=20), middle, rng))
    return made.build(), [random_bytes(rng, first.image, first.dtype)]


def graph_of(kind: str) -> tuple[Graph, list[np.ndarray]]:
    rng = np.random.default_rng(5)
    if kind == "narrow":
        return narrow_graph(rng)
    if kind == "rows":
        return rows_graph(ROWS, rng)
    return conv_graph(
        CONVS[::3] if kind == "conv" else [c for c in CONVS if c not in CONVS[::3]], rng
    )


@pytest.mark.skipif(parse_target("native").arch != "x86_64", reason="tiles are of x86_64")
@pytest.mark.parametrize("name", ["x86_64+v3", *slow("x86_64+v4")])
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("conv", {"amx_conv_q8"}),
        ("rows", {"amx_fully_connected_q8"}),
        ("narrow", {"amx_conv_q8", "conv_q8"}),
        pytest.param("more conv", {"amx_conv_q8"}, marks=pytest.mark.slow),
    ],
)
def test_emulated_tiles_give_what_the_record_gives(kind: str, rows: set[str], name: str) -> None:
    graph, inputs = graph_of(kind)
    assert taken(graph, with_tiles(name)) == rows
    for got, wanted in zip(
        run_emulated(graph, inputs, name), evaluate_graph(graph, inputs), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["conv", "more conv", "rows", "narrow"])
def test_tiles_give_what_the_record_gives(kind: str) -> None:
    target = runnable("x86_64+v4+amx_int8")
    if target is None:
        pytest.skip("this CPU has no AMX")
    graph, inputs = graph_of(kind)
    check_native(graph, inputs, target)
    check_native(graph, inputs, target, threads=2)


@pytest.mark.skipif(parse_target("native").arch != "x86_64", reason="tiles are of x86_64")
@pytest.mark.parametrize(
    "case",
    [
        Conv((1, 32, 32, 3), 16),
        Conv((1, 1, 4, 256), 64, (1, 1)),
        Conv((1, 1, 1, 256), 64, (1, 1)),
        Conv((1, 8, 8, 33), 64, (1, 1)),
    ],
)
def test_vectors_keep_what_tiles_would_not_speed_up(case: Conv) -> None:
    graph, _ = conv_graph([case], np.random.default_rng(5))
    assert taken(graph, with_tiles("x86_64+v3")) == {"conv_q8"}


def test_a_system_that_grants_no_tiles_is_named() -> None:
    if "amx_tile" in host_features():
        pytest.skip("this system grants tiles")
    text = native.UNIT.replace("CIRCLET_UNIT_NEEDS", "CIRCLET_NEEDS_TILES")
    image = compile_units([UnitSource(text, parse_target("generic"))])[0]
    with pytest.raises(TargetError, match="AMX"):
        Executable(native.runtime(), native.chain_plan(1, 1), b"", [image])


def test_units_for_tiles_say_so() -> None:
    graph, _ = conv_graph(CONVS[:1], np.random.default_rng(5))
    (whole,) = partition(graph, dict.fromkeys(graph.ops, "cpu"))
    target = parse_target("x86_64_v4+avx512vnni+amx_int8")
    compiled = compile_partition(whole, target, 1)
    assert compile_units([UnitSource(text, target) for text in compiled.units])
    plain = "#if CIRCLET_UNIT_NEEDS != 0\n#error needs\n#endif\n"
    text = f"#include <circlet_abi.h>\n{plain}"
    assert compile_units([UnitSource(text, parse_target("x86_64_v4"))])
    with pytest.raises(CompileError):
        compile_units([UnitSource(text, target)])
