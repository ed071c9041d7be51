"""The schema tables and the reader agree with the ecosystem's generated bindings."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from circlet.formats import dumps, load, schema
from circlet.formats.flatbuffer import Reader
from circlet.limits import Limits
from tests import corpora
from tests.formats.bindings import DEPRECATED, differences, judge_name

LIMITS = Limits(visits_per_byte=8)
SINGLE_OPS = corpora.single_ops()[::8]


def judge_class(format: str, name: str) -> Any:
    if format == "tflite":
        module = pytest.importorskip("ai_edge_litert.schema_py_generated")
        return getattr(module, name)
    pytest.importorskip("circle_schema")
    return getattr(import_module(f"circle_schema.v0_10.circle.{name.removesuffix('T')}"), name)


def disagreements(data: bytes, format: str) -> list[str]:
    reader = Reader(memoryview(data), schema.by_name(format), LIMITS)
    judge = judge_class(format, "ModelT").InitFromPackedBuf(data, 0)
    return list(differences(reader.root("Model"), judge))


@corpora.each_model()
def test_reader_agrees_with_the_tflite_bindings(name: str) -> None:
    data = corpora.corpus(f"models/{name}").read_bytes()
    assert disagreements(data, "tflite") == []


@corpora.each("name", SINGLE_OPS, SINGLE_OPS[::8])
def test_reader_agrees_with_the_tflite_bindings_on_single_ops(name: str) -> None:
    data = corpora.corpus(f"singleop/models/{name}").read_bytes()
    assert disagreements(data, "tflite") == []


WRITTEN = [f"models/{n}" for n in corpora.models()] + [f"singleop/models/{n}" for n in SINGLE_OPS]
QUICK = (*corpora.REPRESENTATIVE, *SINGLE_OPS[::8])


@pytest.mark.parametrize("format", ["tflite", "circle"])
@corpora.each("path", WRITTEN, QUICK)
def test_what_we_write_is_read_alike_by_the_bindings(path: str, format: str) -> None:
    data = dumps(load(corpora.corpus(path)), format)
    assert disagreements(data, format) == []


@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_every_enumeration_equals_that_of_the_bindings(format: str) -> None:
    for enum in schema.by_name(format).enums.values():
        if enum.name == "DataFormat" and format == "tflite":
            continue
        judge = judge_class(format, enum.name)
        theirs = {name: value for name, value in vars(judge).items() if name[0] != "_"}
        assert enum.values == theirs, enum.name


@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_every_table_has_the_fields_and_defaults_of_the_bindings(format: str) -> None:
    for spec in schema.by_name(format).tables.values():
        judge = judge_class(format, f"{spec.name}T")()
        ours = {f.name: f for f in spec.fields.values() if f.name not in DEPRECATED}
        unions = sum(field.kind == "union" for field in ours.values())
        assert len(vars(judge)) == len(ours) + unions, spec.name
        for name, field in ours.items():
            stored = getattr(judge, judge_name(name, judge))
            assert field.kind != "scalar" or field.default == stored, f"{spec.name}.{name}"
            assert field.kind == "scalar" or stored is None, f"{spec.name}.{name}"


def test_the_bindings_find_weights_at_aligned_places() -> None:
    data = dumps(load(corpora.corpus("models/kws_dscnn_int8.tflite")), "tflite")
    model = judge_class("tflite", "Model").GetRootAs(data, 0)
    buffers = [model.Buffers(index) for index in range(model.BuffersLength())]
    arrays = [buffer.DataAsNumpy() for buffer in buffers if not buffer.DataIsNone()]
    base = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert arrays
    assert {(a.__array_interface__["data"][0] - base) % 16 for a in arrays} == {0}
