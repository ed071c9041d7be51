"""Kinds of model files are registered: those of others are read, run, written and converted."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.errors import FormatError, InputError
from circlet.formats import dumps, dumps_whole, load, load_whole, registry, save
from circlet.formats.convert import convert
from circlet.formats.registry import Format, register_format, unregister_format
from circlet.ir import DType, Model, Requantization
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from tests.runtime import networks

HEAD = b"RELU of "


def read_line(data: memoryview, limits: Limits) -> Model:
    """`RELU of 4`: the one op that the format knows."""
    sizes = bytes(data[len(HEAD) :]).split()
    if not all(size.isdigit() for size in sizes):
        raise FormatError("a size is no number", why=str(sizes))
    b = builder()
    x = b.input("x", DType.FLOAT32, tuple(map(int, sizes)))
    return b.output(b.op("RELU", [x], name="y")).model()


def write_line(model: Model, origins: bool) -> bytes:
    if [op.kind for op in model.main.ops] != ["RELU"]:
        raise FormatError("a line holds one RELU")
    return HEAD + b" ".join(str(n).encode() for n in model.main.inputs[0].static_shape)


LINE = Format("line", (".relu",), lambda head: head.startswith(HEAD), read_line, write_line)


@pytest.fixture
def line() -> Iterator[Format]:
    yield register_format(LINE)
    unregister_format("line")


def test_a_registered_file_is_read_run_written_and_converted(line: Format, tmp_path: Path) -> None:
    path = tmp_path / "small.relu"
    path.write_bytes(HEAD + b"2 3")
    model = load(path)
    assert (model.source_format, dumps(model)) == ("line", path.read_bytes())
    x = np.array([[-1, 0, 1], [2, -2, 3]], np.float32)
    session = circlet.Session(path, backends=["reference"])
    np.testing.assert_array_equal(session.run([x])["y"], np.maximum(x, 0))
    assert convert(path, tmp_path / "small.tflite").format == "tflite"
    save(load(tmp_path / "small.tflite"), tmp_path / "again.RELU")
    assert (tmp_path / "again.RELU").read_bytes() == path.read_bytes()


def test_errors_of_a_registered_reader_name_the_file(line: Format, tmp_path: Path) -> None:
    path = tmp_path / "broken.relu"
    path.write_bytes(HEAD + b"two")
    with pytest.raises(FormatError, match=r"where: .*broken\.relu"):
        load(path)


def test_what_is_not_registered_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no model file"):
        load(HEAD + b"2")
    with pytest.raises(InputError, match="choose one of"):
        dumps(Model([]), "line")
    with pytest.raises(ValueError, match="tflite"):
        register_format(Format("tflite", (), bool, read_line))


class Entry:
    """What `importlib.metadata` gives for an entry point."""

    name = "line"

    def __init__(self, found: object) -> None:
        self.found, self.loads = found, 0

    def load(self) -> object:
        self.loads += 1
        return self.found


def entry_point(monkeypatch: pytest.MonkeyPatch, found: object) -> Entry:
    entry = Entry(found)
    groups = {"circlet.formats": [entry]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: groups[group])
    registry.load_entry_points.cache_clear()
    return entry


def test_entry_points_are_loaded_only_where_no_kind_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_point(monkeypatch, LINE)
    try:
        load(dumps(read_line(memoryview(HEAD + b"2"), Limits()), "tflite"))
        assert entry.loads == 0
        assert load(HEAD + b"2").source_format == "line"
        assert entry.loads == 1
    finally:
        unregister_format("line")
        registry.load_entry_points.cache_clear()


def test_an_entry_point_that_is_no_format_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_point(monkeypatch, "line")
    with pytest.raises(FormatError, match="entry point line"):
        load(HEAD + b"2")
    registry.load_entry_points.cache_clear()


def test_what_files_cannot_say_is_kept_in_the_text_form() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 5, 5, 2))
    w = b.constant("w", np.ones((2, 3, 3, 2), np.float32))
    model = b.output(b.op("CONV_2D", [x, w], Conv2DAttrs(((0, 2), (1, 0))), name="y")).model()
    model.main.ops[0].requantization = Requantization("single", 32)
    again = load_whole(dumps_whole(model)).main.ops[0]
    assert again.attributes(Conv2DAttrs).padding == ((0, 2), (1, 0))
    assert again.requantization == Requantization("single", 32)


def test_a_text_is_no_model_file_of_a_stranger() -> None:
    text = dumps(load(networks.relu()), "text")
    with pytest.raises(FormatError, match="no model file"):
        load(text)
    assert [op.kind for op in load_whole(text).main.ops] == ["RELU"]


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_point(monkeypatch, LINE)
    monkeypatch.setattr(entry, "load", lambda: import_module("no_such_package"))
    with pytest.raises(FormatError, match="no_such_package"):
        registry.all_formats()
    registry.load_entry_points.cache_clear()
