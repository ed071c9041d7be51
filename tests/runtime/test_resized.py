"""Sessions for other input sizes than the file's."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bench.synthetic import KINDS, network
from circlet import Session, load_artifact
from circlet.backends.cpu import resizer
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.toolchain import UnitSource, compile_units
from circlet.compiler.compile import compile_model
from circlet.config import Config
from circlet.errors import FileError, GraphError, InputError
from circlet.ir import DType, Model
from circlet.ops.build import builder
from circlet.ops.split import PackAttrs
from circlet.options import Options
from circlet.target.targets import parse_targets
from tests.runtime import networks
from tests.tiers import slow


@pytest.mark.smoke
def test_a_resized_session_computes_what_the_first_does_for_each_part() -> None:
    first = Session(networks.convolutions(8, 4, 2))
    second = first.resized({"x": (3, 8, 8, 4)})
    images = np.random.default_rng(2).normal(0, 1, (3, 8, 8, 4)).astype(np.float32)
    (whole,) = second.run([images]).values()
    parts = [next(iter(first.run([image[None]]).values())) for image in images]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_inputs_that_are_not_named_keep_their_sizes() -> None:
    session = Session(networks.sum_and_difference())
    with pytest.raises(GraphError):
        session.resized({"left": (2, 4)})
    assert session.resized({"left": (1, 3)}).outputs[0].shape == (2, 3)


@pytest.mark.parametrize(("name", "shape"), [("nobody", (2, 3)), ("left", (6,)), ("left", (-1, 3))])
def test_sizes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        Session(networks.sum_and_difference(), shapes={name: shape})


def test_an_artifact_is_not_resized() -> None:
    artifact = compile_model(networks.relu(), Options())
    with pytest.raises(InputError, match="keeps what it was compiled for"):
        load_artifact(artifact).resized({"x": (7,)})


def images(session: Session) -> np.ndarray:
    shape, dtype = session.inputs[0].shape, np.dtype(session.inputs[0].dtype)
    values = np.random.default_rng(3).uniform(-1, 1, shape)
    return (values * 100).astype(dtype) if dtype.kind == "i" else values.astype(dtype)


def assert_equal_bits(resized: Session, fresh: Session) -> None:
    image = images(fresh)
    for left, right in zip(resized.run([image]).values(), fresh.run([image]).values(), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(units: object) -> list[bytes]:
        raise AssertionError("a unit was compiled")

    monkeypatch.setattr(resizer, "compile_units", refuse)


@pytest.mark.parametrize("kind", ["int8", *slow("fp32")])
@pytest.mark.usefixtures("no_compiler")
def test_a_resize_compiles_nothing_and_gives_the_bits_of_a_fresh_session(kind: str) -> None:
    source = network(kind, 2, 64)
    first = Session(source)
    for size in (33, 48, 64, 96, 100):
        shape = (1, size, size, 3)
        resized = first.resized({"x": shape})
        assert_equal_bits(resized, Session(source, shapes={"x": shape}))


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(("first", "then"), [(32, 33), (33, 32), (32, 8), (5, 40)])
def test_pixels_that_are_joined_in_one_size_need_not_be_in_another(
    first: int, then: int, multiplier: int
) -> None:
    channels = 8 // multiplier
    source = networks.depthwise(first, channels, multiplier)
    shape = 1, 6, then, channels
    resized = Session(source).resized({"x": shape})
    assert_equal_bits(resized, Session(source, shapes={"x": shape}))


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("rows", [33, 64, 100, 200])
def test_attention_over_other_lengths_compiles_nothing(rows: int) -> None:
    sizes = {"q": (2, rows, 16), "k": (2, 16, rows), "v": (2, rows, 16)}
    resized = Session(networks.attention(40), threads=1).resized(sizes)
    values = [np.random.default_rng(4).normal(0, 1, shape) for shape in sizes.values()]
    q, k, v = (value.astype(np.float32) for value in values)
    powers = np.exp(q @ k)
    want = powers / powers.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(
        next(iter(resized.run([q, k, v]).values())), want, rtol=1e-4, atol=1e-5
    )


def test_tiles_that_take_far_longer_are_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def counted(units: list[UnitSource], *, config: Config) -> list[bytes]:
        counts.append(len(units))
        return compile_units(units, config=config)

    monkeypatch.setattr(resizer, "compile_units", counted)
    first = Session(networks.attention(1), threads=1)
    for rows in (200, 300):
        first.resized({"q": (2, rows, 16), "k": (2, 16, rows), "v": (2, rows, 16)})
    assert counts == [1]


@pytest.mark.usefixtures("no_compiler")
def test_images_that_outgrow_the_cache_compile_nothing_either() -> None:
    first = Session(network("fp32", 2, 64))
    resized = first.resized({"x": (1, 400, 400, 3)})
    assert resized.run([images(resized)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("no_compiler")
def test_packed_weights_are_those_of_the_first_session(kind: str) -> None:
    first = Session(network(kind, 2, 64))
    second = first.resized({"x": (1, 80, 80, 3)})
    (one,), (other,) = first.opened.partitions, second.opened.partitions
    assert isinstance(one.code, Executable)
    assert isinstance(other.code, Executable)
    assert np.shares_memory(one.code.constants, other.code.constants)
    assert one.code.units == other.code.units


def _without_amx() -> str:
    """This machine without AMX, whose tiles are other kernels for other numbers of pixels."""
    (target,) = parse_targets("native")
    return str(target._replace(features=tuple(f for f in target.features if "amx" not in f)))


@pytest.mark.parametrize("kind", ["fp32", *slow("int8")])
def test_kernels_that_lack_are_compiled_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []

    def counted(units: list[UnitSource], *, config: Config) -> list[bytes]:
        compiled.append(len(units))
        return compile_units(units, config=config)

    monkeypatch.setattr(resizer, "compile_units", counted)
    source, target = network(kind, 2, 64), _without_amx()
    first = Session(source, cache=False, target=target)
    for batch in (1, 2):
        shape = (batch, 4, 6, 3)
        fresh = Session(source, shapes={"x": shape}, target=target)
        assert_equal_bits(first.resized({"x": shape}), fresh)
    assert compiled == [max(compiled)]


@pytest.mark.usefixtures("no_compiler")
def test_a_session_from_the_cache_is_resized_like_one_just_compiled() -> None:
    source = network("int8", 1, 32)
    Session(source)
    cached = Session(source)
    assert "cache" in cached.opened.seconds
    shape = (1, 40, 40, 3)
    assert_equal_bits(cached.resized({"x": shape}), Session(source, shapes={"x": shape}))


def test_resizing_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    source = network("int8", 1, 32)
    first = Session(source)
    shape = (1, 40, 40, 3)
    wanted = Session(source, shapes={"x": shape})
    monkeypatch.setenv("CIRCLET_CC", "/nonexistent/cc")
    assert_equal_bits(first.resized({"x": shape}), wanted)


def test_a_resized_session_outlives_the_first() -> None:
    source = network("fp32", 1, 32)
    resized = Session(source).resized({"x": (2, 24, 32, 3)})
    again = resized.resized({"x": (1, 24, 24, 3)})
    gc.collect()
    assert_equal_bits(resized, Session(source, shapes={"x": (2, 24, 32, 3)}))
    assert_equal_bits(again, Session(source, shapes={"x": (1, 24, 24, 3)}))


def test_a_file_that_changed_is_no_other_size_of_what_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(network("fp32", 1, 32))
    first, cached = Session(path, cache=False), (Session(path), Session(path))[1]
    path.write_bytes(network("fp32", 2, 32))
    with pytest.raises(FileError, match="changed since it was opened"):
        cached.resized({"x": (1, 40, 40, 3)})
    shape = (1, 40, 40, 3)
    wanted = Session(network("fp32", 1, 32), shapes={"x": shape})
    assert_equal_bits(first.resized({"x": shape}), wanted)


def test_threads_resize_side_by_side() -> None:
    source = network("int8", 1, 32)
    first = Session(source)
    sizes = [(1, size, size, 3) for size in range(16, 48, 4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda shape: first.resized({"x": shape}), sizes))
    for resized, shape in zip(made, sizes, strict=True):
        assert_equal_bits(resized, Session(source, shapes={"x": shape}))


@pytest.mark.usefixtures("no_compiler")
def test_sizes_that_the_reference_backend_computes_go_along() -> None:
    source = networks.mixed()
    first = Session(source, backends=("reference",))
    assert first.resized({"x": (4, 5)}).outputs[0].shape == (4, 5)


def test_constants_that_follow_from_sizes_are_those_of_the_new_sizes() -> None:
    """Parts of a result that are copied from constants of the sizes at hand alone."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, None))
    shape = b.op("SHAPE", [x], name="shape", dtype=DType.INT32)
    sizes = [
        b.op("GATHER", [shape, b.constant(f"{axis}", np.int32(axis))], name=f"size{axis}")
        for axis in (1, 0)
    ]
    packed = b.op("PACK", sizes, PackAttrs(2), name="sizes")
    graph = b.output(packed, b.op("NEG", [x], name="y")).build()
    session = Session(Model([graph]), backends=["cpu"], strict=True, cache=False)
    for shape_of_x in ((1, 1), (3, 5), (7, 2)):
        found = session.run([np.zeros(shape_of_x, np.float32)])
        assert found["sizes"].tolist() == [*reversed(shape_of_x)]
