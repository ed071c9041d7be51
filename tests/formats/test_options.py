"""What options tables say of attributes and regions, held against schemas and records."""

from __future__ import annotations

from dataclasses import fields

import pytest

from circlet.errors import FormatError
from circlet.formats import dumps, load, schema
from circlet.formats.options import codec_of, decode_custom
from circlet.formats.options.regions import GRAPH_FIELDS, graph_fields, graph_numbers
from circlet.ir import DType, Model
from circlet.ops import OpDef, all_records
from circlet.ops.build import builder
from circlet.ops.resize import ResizeAttrs

FORMATS = ("tflite", "circle")
BUILTINS = [record for record in all_records() if not record.kind.startswith("CUSTOM:")]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("record", BUILTINS, ids=lambda record: str(record.kind))
def test_every_attribute_is_said_by_fields_that_exist(record: OpDef, format_name: str) -> None:
    codec = codec_of(record.kind, format_name)
    names = {field.name for field in fields(record.attrs)}
    spoken = schema.by_name(format_name)
    tables = spoken.tables
    if record.kind not in spoken.enums["BuiltinOperator"].values:
        assert codec.table not in tables  # a kind of the other format
        return
    assert not codec.table or codec.fields(record.attrs) <= tables[codec.table].fields.keys()
    assert codec.table or not names
    assert {*codec.derived, *(part.attribute for part in codec.parts)} <= names


def test_custom_operators_with_a_record_have_a_reader_of_their_options() -> None:
    for record in all_records():
        if record.kind.startswith("CUSTOM:"):
            assert decode_custom(record.kind.removeprefix("CUSTOM:")) is not None


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_field_that_numbers_graphs_is_known(format_name: str) -> None:
    tables = schema.by_name(format_name).tables
    found = {
        name: tuple(field for field in spec.fields if "subgraph" in field)
        for name, spec in tables.items()
        if name.endswith("Options")
    }
    assert {name: names for name, names in found.items() if names} == GRAPH_FIELDS


def test_numbers_of_graphs_come_back() -> None:
    for table, names in GRAPH_FIELDS.items():
        numbers = list(range(3, 3 + len(names)))
        assert list(graph_numbers(table, graph_fields(table, numbers))) == numbers
    assert list(graph_numbers("StablehloCaseOptions", {"branch_subgraph_indices": (4, 2)})) == [
        4,
        2,
    ]


@pytest.mark.parametrize("word", ["asymmetric", "half_pixel", "align_corners"])
def test_coordinates_of_resizes_are_two_flags(word: str) -> None:
    model = _resized(word)
    assert load(dumps(model)).main.ops[0].attrs == ResizeAttrs(word)


def test_coordinates_that_no_flags_say_are_refused() -> None:
    with pytest.raises(FormatError, match="pytorch_half_pixel"):
        dumps(_resized("pytorch_half_pixel"))


def _resized(word: str) -> Model:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 2, 2, 1))
    size = b.constant("size", [3, 3])
    model = b.output(b.op("RESIZE_BILINEAR", [x, size], ResizeAttrs(word), name="y")).model()
    model.source_format = "tflite"
    return model
