"""Writing files: origins, weights outside of the flatbuffer, conversion limits, failures."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError, FileError, FormatError, InputError
from circlet.formats import dumps, load, save, schema
from circlet.formats.flatbuffer import Reader
from circlet.formats.origin_tables import (
    OP_TABLE,
    SOURCE_TABLE,
    read_origins,
    read_sources,
    write_origins,
    write_sources,
)
from circlet.formats.write_model import write_model
from circlet.ir import DType, Graph, Model, Op, Origin, RawAttrs, SourceOp, Sparsity, Tensor
from tests import corpora
from tests.attacks.build import small

ORIGIN = Origin.of(0, "source")


def one_op(kind: str, attrs: RawAttrs, **more: Any) -> Model:
    x, y = Tensor("x", DType.FLOAT32, (2, 2)), Tensor("y", DType.FLOAT32, (2, 2))
    op = Op(kind, [x], [y], attrs, ORIGIN, **more)
    return Model([Graph("main", [x], [y], [op], [x, y])], source_format="circle")


def test_origin_records_have_the_bytes_that_one_gives_them() -> None:
    sources = (SourceOp(1, "a"), SourceOp(2, "bc"))
    op = Op("ADD", [], [], None, Origin(sources))
    assert write_origins([op]) == struct.pack("<5I", 1, 0, 2, 1, 2)
    assert write_sources([op]) == struct.pack("<3I2s2I3s", 2, 1, 2, b"a\0", 2, 3, b"bc\0")


@pytest.mark.smoke
def test_origins_continue_from_file_to_file() -> None:
    model = load(small())
    model.main.ops[0].origin = Origin((SourceOp(3, "conv"), SourceOp(7, "bias")))
    for _ in range(2):
        model = load(dumps(model, "circle"))
        assert model.main.ops[0].name == "conv+bias"
        assert not {SOURCE_TABLE, OP_TABLE} & set(model.metadata)
    assert load(dumps(model, "tflite", origins=False)).main.ops[0].name == "y"
    assert load(dumps(model, "tflite")).main.ops[0].name == "conv+bias"


def test_origins_that_the_file_says_anyway_are_not_written_to_it() -> None:
    assert SOURCE_TABLE.encode() not in dumps(load(small()), "tflite")


def test_two_sources_of_one_id_stay_two() -> None:
    ops = [Op("ADD", [], [], None, Origin.of(0, name)) for name in ("a", "b")]
    tables = [np.frombuffer(write(ops), np.uint8) for write in (write_sources, write_origins)]
    origins = read_origins(tables[1], read_sources(tables[0]))
    assert [origins[number].name for number in range(2)] == ["a", "b"]


def test_an_operator_without_an_entry_gets_an_id_of_its_own() -> None:
    model = load(dumps(load(small()), "circle"))
    model.metadata[SOURCE_TABLE] = np.frombuffer(struct.pack("<3I2s", 1, 9, 2, b"a\0"), np.uint8)
    model.metadata[OP_TABLE] = np.frombuffer(struct.pack("<I", 0), np.uint8)
    again = load(dumps(model, "circle", origins=False))
    assert again.main.ops[0].origin.sources == (SourceOp(10, "y"),)


@pytest.mark.parametrize(
    "source_table",
    [
        struct.pack("<I", 1),
        struct.pack("<3I2s", 1, 0, 3, b"a\0"),
        struct.pack("<3I2s", 1, 0, 2, b"ab"),
        struct.pack("<3I2s2I2s", 2, 0, 2, b"a\0", 0, 2, b"a\0"),
        struct.pack("<3I2sB", 1, 0, 2, b"a\0", 7),
    ],
)
def test_a_damaged_source_table_is_refused(source_table: bytes) -> None:
    with pytest.raises(FormatError, match="ONE_source_table"):
        read_sources(np.frombuffer(source_table, np.uint8))


def test_an_origin_of_an_unknown_source_is_refused() -> None:
    with pytest.raises(FormatError, match="unknown sources"):
        read_origins(np.frombuffer(struct.pack("<4I", 1, 0, 1, 5), np.uint8), {})


def test_weights_behind_the_flatbuffer_are_read_back_and_run() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    model = load(corpora.corpus("models/resnet8_cifar10_int8.tflite"))
    data = bytes(write_model(model, schema.by_name("tflite"), False, inline_bytes=1000))
    buffers = Reader(memoryview(data), schema.by_name("tflite")).root("Model").tables("buffers")
    starts = [table.integer("offset") for table in buffers if table.integer("offset")]
    assert len(starts) > 5
    assert all(start % 16 == 0 for start in starts)
    outside = [tensor.data for tensor in load(data).main.constants()]
    inside = [tensor.data for tensor in model.main.constants()]
    for here, there in zip(inside, outside, strict=True):
        assert np.array_equal(np.asarray(here), np.asarray(there))
    assert _run(litert, data) == _run(litert, dumps(model))


def _run(litert: Any, content: bytes) -> bytes:
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    detail = interpreter.get_input_details()[0]
    size = int(np.prod(detail["shape"]))
    values = np.arange(size, dtype=np.int64).astype(np.int8).reshape(detail["shape"])
    interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    output: np.ndarray = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return output.tobytes()


@pytest.mark.parametrize("inline_bytes", [2**31, -1])
def test_custom_options_survive_in_the_table_and_behind_it(inline_bytes: int) -> None:
    options = bytes(range(256)) * 8
    model = one_op("CUSTOM", RawAttrs(custom=options), custom_code="Mine", version=3)
    op = load(bytes(write_model(model, schema.by_name("tflite"), False, inline_bytes))).main.ops[0]
    assert (op.label, op.version) == ("CUSTOM:Mine", 3)
    assert isinstance(op.attrs, RawAttrs)
    assert op.attrs.custom == options


def test_tensors_that_share_storage_share_a_buffer() -> None:
    model = load(small())
    weights = np.arange(4, dtype=np.float32).reshape(1, 4)
    for name in ("a", "b"):
        model.main.tensors.append(Tensor(name, DType.FLOAT32, (1, 4), data=weights))
    root = Reader(memoryview(dumps(model)), schema.by_name("tflite")).root("Model")
    assert root.count("buffers") == 2


@pytest.mark.parametrize(
    ("kind", "table", "fields"),
    [
        ("INSTANCE_NORM", "InstanceNormOptions", {"epsilon": 0.5}),
        ("ROPE", "RoPEOptions", {"mode": "GPT_J"}),
        ("RUN_MODEL", "RunModelOptions", {"location": "a.circle", "signature": "s"}),
        ("BCQ_GATHER", "BCQGatherOptions", {"input_hidden_size": 8, "axis": 1}),
    ],
)
def test_operators_of_circle_alone_are_kept_and_not_put_into_tflite(
    kind: str, table: str, fields: dict[str, object]
) -> None:
    model = one_op(kind, RawAttrs(table, fields))
    data = dumps(model)
    op = load(data).main.ops[0]
    assert op.kind == kind
    kept = op.attrs.fields if isinstance(op.attrs, RawAttrs) else vars(op.attrs)
    assert {name: kept[name] for name in fields} == fields
    assert _circle_kind(data) == schema.by_name("circle").enums["BuiltinOperator"].values[kind]
    with pytest.raises(FormatError, match=rf"source \({kind}\)"):
        dumps(model, "tflite")


def _circle_kind(data: bytes) -> int:
    """The operator's code as the ecosystem's bindings read it."""
    pytest.importorskip("circle_schema")
    judge = import_module("circle_schema.v0_10.circle.Model").Model.GetRootAs(data, 0)
    code: int = judge.OperatorCodes(0).BuiltinCode()
    return code


@pytest.mark.parametrize("dtype", [DType.UINT4, DType.MXFP4, DType.GGML_Q4_0])
def test_types_numbered_otherwise_in_circle_survive(dtype: DType) -> None:
    model = one_op("RELU", RawAttrs())
    weights = Tensor("w", dtype, (32,), data=np.arange(18, dtype=np.uint8))
    model.main.tensors.append(weights)
    assert load(dumps(model, "circle")).main.tensors[2].dtype is dtype


def test_sparse_storage_survives() -> None:
    model = load(small())
    segments = {"table": "Uint8Vector", "values": (0, 1, 2)}
    sparse = {"format": "SPARSE_CSR", "dense_size": 0, "array_segments": segments}
    dense = {"format": "DENSE", "dense_size": 1}
    constant = Tensor("w", DType.FLOAT32, (1, 4), data=np.ones(2, np.float32))
    constant.sparsity = Sparsity([0, 1], [], [dense, {**sparse, "array_indices": segments}])
    model.main.tensors.append(constant)
    again = load(dumps(model)).main.tensors[2]
    assert again.sparsity is not None
    assert again.sparsity.dims[1]["array_indices"] == segments
    assert again.data is not None
    assert again.data.nbytes == 8


@pytest.mark.smoke
def test_save_writes_the_format_of_the_ending(tmp_path: Path) -> None:
    model = load(small())
    for ending, identifier in (("tflite", b"TFL3"), ("circle", b"CIR0")):
        path = tmp_path / f"model.{ending}"
        save(model, path)
        assert path.read_bytes()[4:8] == identifier
        assert load(path).source_format == ending
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.circle", "model.tflite"]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mlir"):
        save(load(small()), tmp_path / "model.bin", "mlir")


def test_a_directory_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="absent"):
        save(load(small()), tmp_path / "absent" / "model.tflite")


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def no_space(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", no_space)
        yield


def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"old")
    with full_disk(monkeypatch), pytest.raises(FileError, match="No space left"):
        save(load(small()), path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.tflite"]
    assert path.read_bytes() == b"old"


def test_a_model_can_be_saved_over_the_file_it_was_loaded_from(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(corpora.corpus("models/hello_world_int8.tflite").read_bytes())
    model = load(path)
    expected = dumps(model)
    save(model, path)
    assert path.read_bytes() == expected == dumps(model)


def test_what_loads_of_damaged_files_can_be_written_or_is_refused() -> None:
    original = corpora.corpus("models/while_dynamic.tflite").read_bytes()
    rng = np.random.default_rng(9)
    for _ in range(150):
        damaged = np.frombuffer(original, np.uint8).copy()
        damaged[rng.integers(0, len(damaged), 2)] = rng.integers(0, 256, 2)
        try:
            data = dumps(load(damaged.tobytes()), "circle")
        except CircletError:
            continue
        assert load(data).source_format == "circle"
