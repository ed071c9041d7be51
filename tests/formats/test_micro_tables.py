"""Constants that TFLite Micro's metadata says are places in tables of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet import Session
from circlet.errors import CircletError, FormatError
from circlet.formats import dumps, load
from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.schema.compression import compression_schema
from circlet.ir import Model, Quantization
from circlet.ops.build import builder

ENTRY = "COMPRESSION_METADATA"
PLACES = np.array([0b01100011, 0b00100111], np.uint8)  # 1, 2, 0, 3 and 0, 2, 1, 3
TABLES = np.array([[5, -6, 7, 8], [1, 2, 3, -4]], np.int8)
WANTED = [[-6, 7, 5, 8], [1, 3, 2, -4]]


def compressed(
    quant: Quantization | None,
    tables: np.ndarray = TABLES,
    places: np.ndarray = PLACES,
    shape: tuple[int, ...] = (2, 4),
    **changes: object,
) -> bytes:
    """A file whose one output is a constant, stored as places; the tables lie in a buffer."""
    b = builder()
    stored = b.constant("w", np.zeros(shape, np.int8), quant)
    sizes = b.constant("sizes", np.array(shape, np.int32))
    values = b.constant("values", tables.reshape(-1))
    flat = b.op("RESHAPE", [values, b.constant("one", np.array([-1], np.int32))], name="v")
    model = b.output(b.op("RESHAPE", [stored, sizes], name="y"), flat).model()
    stored.data = places
    numbers = {t.name: i for i, t in enumerate(b.graph.tensors)}
    said = {"tensor": numbers["w"], "value_buffer": 0, "index_bitwidth": 2} | changes
    if "value_buffer" not in changes:
        said["value_buffer"] = _buffer_of(model, numbers["values"])
    model.metadata[ENTRY] = metadata([said])
    return bytes(dumps(model, "tflite"))


def _buffer_of(model: Model, number: int) -> int:
    from circlet.formats import schema
    from circlet.formats.flatbuffer import Reader

    data = memoryview(bytes(dumps(model, "tflite")))
    (graph,) = Reader(data, schema.by_name("tflite")).root("Model").tables("subgraphs")
    return [table.integer("buffer") for table in graph.tables("tensors")][number]


def metadata(tensors: Sequence[dict[str, object]], version: int = 1) -> np.ndarray:
    values = {"schema_version": version, "subgraphs": [{"lut_tensors": list(tensors)}]}
    return np.frombuffer(Writer(compression_schema()).finish("Metadata", values), np.uint8)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_places_are_read_as_the_values_that_they_stand_for(axis: int | None) -> None:
    if axis is None:
        data, wanted = compressed(None, TABLES[0]), [[-6, 7, 5, 8], [5, 7, -6, 8]]
    elif axis == 0:
        data, wanted = compressed(Quantization.per_channel([1.0, 1.0], 0)), WANTED
    else:
        turned = np.packbits(np.unpackbits(PLACES).reshape(2, 4, 2).swapaxes(0, 1))
        quant = Quantization.per_channel([1.0, 1.0], 1)
        data, wanted = compressed(quant, places=turned, shape=(4, 2)), np.transpose(WANTED).tolist()
    assert Session(data, backends=["reference"]).run([])["y"].tolist() == wanted
    model = load(data)
    assert ENTRY not in model.metadata
    assert Session(dumps(model, "tflite"), backends=["reference"]).run([])["y"].tolist() == wanted


@pytest.mark.parametrize(
    "changes",
    [
        {"value_buffer": 99},
        {"index_bitwidth": 0},
        {"index_bitwidth": 8},
        {"index_bitwidth": 7},
        {"tables": TABLES[:1, :2]},
        {"tables": TABLES[:0]},
        {"quant": Quantization.per_channel([1.0] * 3, 0)},
    ],
)
def test_what_is_broken_is_a_coded_error(changes: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="compressed weights cannot be read"):
        load(compressed(**({"quant": None} | changes)))  # type: ignore[arg-type]


def test_later_versions_and_damaged_metadata_are_refused() -> None:
    model = load(compressed(None, TABLES[0]))
    for blob in (metadata([], version=2), np.zeros(3, np.uint8), np.full(64, 255, np.uint8)):
        model.metadata[ENTRY] = blob
        with pytest.raises(CircletError):
            load(dumps(model, "tflite"))
