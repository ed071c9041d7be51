"""TFLM_DECODE: the forms of TFLite Micro by hand, what is broken, and constants in their place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.passes import make
from tests.evaluate import evaluate

# Places 7, 0, 3, 2 of three bits each, as the schema of the form draws them.
PLACES = [0b11100001, 0b10100000]
VALUES = [10, 11, 12, 13, 14, 15, 16, -17]
ONE_TABLE = 15 << 4
ROWS, COLUMNS = (Quantization.per_channel([0.5, 0.25], axis, [3, -4]) for axis in (0, 1))
# The codes 0, 10 and 11 of 5, 7 and -1, in tables of one and of two bits at first.
CODES, SYMBOLS = [0b01011000], [5, 7, -1, 5]
NARROW = np.array([0x8805, 0x0001, 0x8807, 0x88FF], "<u2")
WIDE = np.array([0x88000005, 0x88000005, 0x90000007, 0x9000FFFF], "<u4")


def head(form: int, *parameters: int, values: np.ndarray | Sequence[int] = ()) -> list[int]:
    array = np.asarray(values) if isinstance(values, np.ndarray) else np.array(values, np.int8)
    return [form, 1, 0, 0, 1, *parameters, *[0] * (11 - len(parameters)), *array.tobytes()]


def network(
    encoded: Sequence[int],
    said: Sequence[int],
    shape: tuple[int, ...] = (2, 2),
    dtype: DType = DType.INT8,
    quant: Quantization | None = None,
) -> Graph:
    """Gives back what is decoded."""
    b = builder()
    pair = [b.constant("e", np.array(encoded, np.uint8)), b.constant("h", np.array(said, np.uint8))]
    made = b.tensor("w", dtype, shape, quant)
    b.op_many("CUSTOM", pair, [made], custom_code="TFLM_DECODE")
    sizes = b.constant("sizes", np.array(shape, np.int32))
    return b.output(b.op("RESHAPE", [made, sizes], name="y")).build()


SOUND = {
    "one table": (PLACES, head(0, ONE_TABLE | 3, 8, values=VALUES), None, [-17, 10, 13, 12]),
    "rows": ([0b01100000], head(0, 1, 2, values=[1, 2, 3, 4]), ROWS, [1, 2, 4, 3]),
    "columns": ([0b01100000], head(0, 1 << 4 | 1, 2, values=[1, 2, 3, 4]), COLUMNS, [1, 4, 2, 3]),
    "columns by scales": ([0b01100000], head(0, 1, 2, values=[1, 2, 3, 4]), COLUMNS, [1, 4, 2, 3]),
    "rows without scales": ([0b01100000], head(0, 1, 2, values=[1, 2, 3, 4]), None, [1, 2, 4, 3]),
    "one table by scales": ([0b01100000], head(0, 1, 2, values=[1, 2]), ROWS, [1, 2, 2, 1]),
    "pruned": ([0b01100000], head(2, values=[8, 9]), None, [0, 8, 9, 0]),
    "pruned rows": ([0b01100000], head(2, values=[8, 9]), ROWS, [3, 8, 9, -4]),
    "pruned columns": ([0b01100000], head(2, values=[8, 9]), COLUMNS, [3, 8, 9, -4]),
    "narrow codes": (CODES, head(1, 0, values=NARROW), None, SYMBOLS),
}
SOUND["pruned columns"] = ([0b11000000], head(2, values=[8, 9]), COLUMNS, [8, 9, 3, -4])


@pytest.mark.parametrize("name", SOUND)
def test_each_form_means_what_tflite_micro_says(name: str) -> None:
    encoded, said, quant, wanted = SOUND[name]
    graph = network(encoded, said, quant=quant)
    assert evaluate(graph, [])[0].reshape(-1).tolist() == wanted
    assert make("unpack-constants").run(graph)
    assert [op.kind for op in graph.ops] == ["RESHAPE"]
    assert evaluate(graph, [])[0].reshape(-1).tolist() == wanted


def test_codes_of_two_bits_at_first_put_back_what_they_do_not_use() -> None:
    graph = network(CODES, head(1, 1 << 4 | 1, values=WIDE), dtype=DType.INT16)
    assert evaluate(graph, [])[0].reshape(-1).tolist() == SYMBOLS


@pytest.mark.parametrize(
    "dtype", [DType.FLOAT32, DType.INT16, DType.INT32, DType.INT64, DType.BOOL]
)
def test_values_are_of_the_type_of_what_is_decoded(dtype: DType) -> None:
    values = np.array([1, 0], dtype.numpy)
    graph = network([0b01100000], head(0, ONE_TABLE | 1, 2, values=values), dtype=dtype)
    (found,) = evaluate(graph, [])
    assert found.dtype == dtype.numpy and found.reshape(-1).tolist() == [1, 0, 0, 1]


BROKEN = {
    "places cut off": (PLACES[:1], head(0, ONE_TABLE | 3, 8, values=VALUES)),
    "a place beyond the table": (PLACES, head(0, ONE_TABLE | 3, 4, values=VALUES[:4])),
    "tables cut off": (PLACES, head(0, ONE_TABLE | 3, 8, values=VALUES[1:])),
    "no bits": (PLACES, head(0, ONE_TABLE, 8, values=VALUES)),
    "no values": (PLACES, head(0, ONE_TABLE | 3, 0)),
    "an axis that is not there": (PLACES, head(0, 5 << 4 | 3, 8, values=VALUES * 2)),
    "pruned values cut off": ([0b01100000], head(2, values=[8])),
    "codes cut off": ([], head(1, 0, values=NARROW)),
    "no table of codes": (CODES, head(1, 0)),
    "a table that leads to itself": ([0xFF], head(1, 0, values=np.zeros(2, "<u2"))),
    "codes that lead out of the table": ([0xFF], head(1, 0, values=NARROW[:2])),
    "codes of bytes as larger numbers": (CODES, head(1, 0, values=NARROW)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_decoded_is_a_coded_error(name: str) -> None:
    encoded, said = BROKEN[name]
    dtype = DType.INT16 if "larger" in name else DType.INT8
    graph = network(encoded, said, dtype=dtype)
    assert not make("unpack-constants").run(graph)
    with pytest.raises(GraphError, match="cannot be decoded"):
        evaluate(graph, [])


@pytest.mark.parametrize(
    "said", [[0, 1, 0], head(3), [0, 2, *head(0)[2:]], [*head(0)[:4], 2, *head(0)[5:]]]
)
def test_heads_that_are_not_known_break_a_rule(said: list[int]) -> None:
    data = dumps(Model([network(PLACES, said)]), "tflite")
    with pytest.raises(GraphError, match="a head of 16 bytes"):
        Session(data, backends=["reference"])


def test_scales_that_a_compressor_left_are_forgotten() -> None:
    graph = network(*SOUND["rows"][:2], quant=ROWS)
    graph.ops[0].inputs[0].quant = ROWS  # type: ignore[union-attr]
    data = dumps(Model([graph]), "tflite")
    read = load(data).main.ops[0]
    assert [tensor and tensor.quant for tensor in read.inputs] == [None, None]
    (found,) = Session(data, backends=["reference"]).run([]).values()
    assert found.reshape(-1).tolist() == SOUND["rows"][3]
