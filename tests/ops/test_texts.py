"""TensorFlow Text's operators; results are those that its own tests and documentation state."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import FormatError, GraphError, LimitError
from circlet.formats import dumps
from circlet.formats.options.texts import ngrams_attrs, ragged_attrs
from circlet.ir import DType, RawAttrs, Shape, Tensor
from circlet.ir.builder import Builder
from circlet.limits import Limits
from circlet.ops.ngrams import NgramsAttrs
from tests.strings import strings

flexbuffers = pytest.importorskip("flatbuffers.flexbuffers", reason="flatbuffers is not installed")

# A bit for each code point up to U+3000.
SPACES = bytearray(0x3001 // 8 + 1)
for _point in (9, 10, 32, 0xA0, 0x3000):
    SPACES[_point >> 3] |= 1 << (_point & 7)

Made = list[tuple[DType, Shape]]


def custom(code: str, given: list[Tensor], made: Made, options: object = None) -> bytes:
    """A network of one custom operator whose constants are operands as they are."""
    b = Builder()
    b.graph.tensors += given
    b.graph.inputs += [tensor for tensor in given if not tensor.is_constant]
    outputs = [b.tensor(f"y{i}", *kind) for i, kind in enumerate(made)]
    raw = b"" if options is None else bytes(flexbuffers.Dumps(options))
    b.op_many("CUSTOM", given, outputs, RawAttrs(custom=raw), custom_code=code)
    return dumps(b.output(*outputs).model(), "tflite")


def texts(*elements: bytes) -> np.ndarray:
    result = np.empty(len(elements), object)
    result[:] = elements
    return result


def results(content: bytes, *arrays: np.ndarray) -> list[object]:
    return [array.tolist() for array in Session(content).run(list(arrays)).values()]


def tokenizer(count: int) -> bytes:
    given = [Tensor("x", DType.STRING, (count,)), strings("config", bytes(SPACES))]
    made: Made = [(DType.STRING, (None,)), (DType.INT64, (count + 1,))]
    made += [(DType.INT32, (None,))] * 2
    return custom("TFText>WhitespaceTokenizeWithOffsetsV2", given, made)


def test_tokens_have_offsets_in_bytes() -> None:
    given = texts(b"a bb ccc", b"", b"  Show me\tthe way. ")
    tokens, splits, starts, ends = results(tokenizer(3), given)
    assert tokens == [b"a", b"bb", b"ccc", b"Show", b"me", b"the", b"way."]
    assert splits == [0, 3, 3, 7]
    assert starts == [0, 2, 5, 2, 7, 10, 14] and ends == [1, 4, 8, 6, 9, 13, 18]


def test_a_token_before_wide_space_ends_a_byte_before_the_space_does() -> None:
    given = texts("é\u3000x".encode(), b"\xff\xa0 b")
    tokens, _, starts, ends = results(tokenizer(2), given)
    assert tokens == ["é\u3000".encode()[:4], b"x", b"\xff\xa0", b"b"]
    assert starts == [0, 5, 0, 3] and ends == [4, 6, 2, 4]


@pytest.mark.parametrize(
    ("shape", "splits"), [((), []), ((2,), [[0, 2, 3]]), ((2, 1), [[0, 2, 3], [0, 1, 2]])]
)
def test_the_older_tokenizer_gives_row_splits_for_each_axis(
    shape: tuple[int, ...], splits: list[list[int]]
) -> None:
    made: Made = [(DType.STRING, (None,)), *[(DType.INT64, (None,))] * len(splits)]
    content = custom("tftext:WhitespaceTokenizer", [Tensor("x", DType.STRING, shape)], made)
    given = np.empty(shape, object)
    given[...] = b"x"
    given.reshape(-1)[:2] = ["a\u3000bb".encode(), b"c"][: given.size]
    found = results(content, given)
    wanted = [b"a", b"bb", b"c"][: given.size + 1]
    assert found == [wanted, *splits]


JOINED = {"width": 2, "axis": -1, "string_separator": "|", "reduction_type": "STRING_JOIN"}


@pytest.mark.parametrize("code", ["TFText>NgramsStringJoin", "tftext:Ngrams"])
def test_neighbours_in_rows_are_joined(code: str) -> None:
    made: Made = [(DType.STRING, (2, 2))]
    content = custom(code, [Tensor("x", DType.STRING, (2, 3))], made, JOINED)
    given = texts(b"a", b"b", b"c", b"d", b"", b"f").reshape(2, 3)
    assert results(content, given) == [[[b"a|b", b"b|c"], [b"d|", b"|f"]]]


def ragged_ngrams() -> bytes:
    given = [Tensor("x", DType.STRING, (6,))]
    given += [Tensor(f"s{i}", DType.INT64, (n,)) for i, n in enumerate((3, 5))]
    made: Made = [(DType.STRING, (None,)), (DType.INT64, (3,)), (DType.INT64, (5,))]
    return custom("TFText>NgramsStringJoin", given, made, JOINED)


def test_neighbours_in_ragged_rows_are_joined() -> None:
    values = texts(b"a", b"b", b"c", b"d", b"e", b"f")
    outer, inner = np.array([0, 1, 4]), np.array([0, 3, 4, 4, 6])
    found = results(ragged_ngrams(), values, outer, inner)
    assert found == [[b"a|b", b"b|c", b"e|f"], [0, 1, 4], [0, 2, 2, 2, 3]]


@pytest.mark.parametrize("inner", [[0, 3, 2, 4, 6], [0, 3, 4, 4, 7], [-1, 3, 4, 4, 6]])
def test_row_splits_that_do_not_fit_are_errors(inner: list[int]) -> None:
    values = texts(*[b"a"] * 6)
    with pytest.raises(GraphError, match="row splits"):
        results(ragged_ngrams(), values, np.array([0, 1, 4]), np.array(inner))


def test_options_that_are_wrong_are_refused() -> None:
    assert ngrams_attrs(bytes(flexbuffers.Dumps(JOINED))) == NgramsAttrs(2, "|")
    with pytest.raises(FormatError, match="wrong type"):
        ngrams_attrs(bytes(flexbuffers.Dumps({"width": "2"})))
    with pytest.raises(FormatError, match="list of texts"):
        ragged_attrs(bytes(flexbuffers.Dumps({"row_partition_types": 3})))


def dense_rows(
    types: list[str], partitions: list[int], rank: int, dtype: DType = DType.FLOAT32
) -> bytes:
    given = [Tensor("sizes", DType.INT32, (rank,)), Tensor("values", dtype, (9,))]
    given.append(Tensor("default", dtype, (1,)))
    given += [Tensor(f"p{i}", DType.INT64, (n,)) for i, n in enumerate(partitions)]
    made: Made = [(dtype, (None,) * (len([t for t in types if t != "FIRST_DIM_SIZE"]) + 1))]
    return custom("RaggedTensorToTensor", given, made, {"row_partition_types": types})


NINE = np.arange(1, 10).astype(np.float32)
TWO_LEVELS = [
    [[0, 0, 0], [0, 0, 0]],
    [[1, 2, 0], [3, 0, 0]],
    [[0, 0, 0], [0, 0, 0]],
    [[4, 5, 0], [6, 7, 8]],
    [[9, 0, 0], [0, 0, 0]],
]


def filled(content: bytes, sizes: list[int], *partitions: list[int]) -> np.ndarray:
    arrays = [np.array(sizes, np.int32), NINE, np.zeros(1, np.float32)]
    arrays += [np.array(partition) for partition in partitions]
    return next(iter(Session(content).run(arrays).values()))


@pytest.mark.parametrize("sizes", [[4, 4], [-1, -1], [3, 2], [6, 5]])
def test_rows_are_filled_up_or_cut(sizes: list[int]) -> None:
    found = filled(dense_rows(["ROW_SPLITS"], [5], 2), sizes, [0, 3, 3, 7, 9])
    rows = [[1, 2, 3, 0, 0], [0] * 5, [4, 5, 6, 7, 0], [8, 9, 0, 0, 0], [0] * 5, [0] * 5]
    height, width = (4, 4) if sizes == [-1, -1] else sizes
    np.testing.assert_array_equal(found, np.array(rows)[:height, :width])


@pytest.mark.parametrize("sizes", [[5, 2, 3], [-1, -1, -1]])
def test_rows_of_rows_by_splits_and_by_row_numbers(sizes: list[int]) -> None:
    by_splits = dense_rows(["ROW_SPLITS", "ROW_SPLITS"], [6, 7], 3)
    found = filled(by_splits, sizes, [0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9])
    np.testing.assert_array_equal(found, TWO_LEVELS)
    by_rows = dense_rows(["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"], [1, 6, 9], 3)
    rows = ([5], [0, 1, 1, 3, 3, 4], [1, 1, 2, 3, 3, 4, 4, 4, 5])
    np.testing.assert_array_equal(filled(by_rows, sizes, *rows), TWO_LEVELS)


@pytest.mark.parametrize("splits", [[0, 3, 2, 7, 9], [1, 3, 3, 7, 9], [0, 3, 3, 7, 8]])
def test_partitions_that_do_not_fit_are_errors(splits: list[int]) -> None:
    with pytest.raises(GraphError, match="does not fit"):
        filled(dense_rows(["ROW_SPLITS"], [5], 2), [4, 4], splits)


def test_sizes_cannot_ask_for_more_memory_than_is_allowed() -> None:
    content = dense_rows(["ROW_SPLITS"], [5], 2)
    session = Session(content, limits=Limits(memory_bytes=1 << 28))
    sizes = np.array([1 << 20, 1 << 20], np.int32)
    with pytest.raises(LimitError):
        session.run([sizes, NINE, np.zeros(1, np.float32), np.array([0, 3, 3, 7, 9])])
