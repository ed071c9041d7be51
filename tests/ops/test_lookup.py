from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import GraphError, UnsupportedOpsError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, RawAttrs, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.embedding_sparse import EmbeddingLookupSparseAttrs
from circlet.passes.resolve_tables import resolve_tables
from tests.strings import litert_results, strings

WORDS = (b"a", b"bb", b"", b"a", b"\xff")
NUMBERS = (7, -1, 3, 9, 1 << 40)


def handle(b: Builder, number: int, of_words: bool) -> Tensor:
    types = ("STRING", "INT64") if of_words else ("INT64", "STRING")
    fields: dict[str, object] = {"table_id": number, "key_dtype": types[0], "value_dtype": types[1]}
    attrs = RawAttrs("HashtableOptions", fields)
    return b.op("HASHTABLE", [], attrs, name="handle", dtype=DType.RESOURCE, shape=(1,))


def filling(*tables: bool) -> Graph:
    b = builder("init")
    for number, of_words in enumerate(tables):
        words = strings(f"words {number}", *WORDS)
        numbers = b.constant(f"numbers {number}", np.array(NUMBERS, np.int64))
        b.graph.tensors.append(words)
        pair = [words, numbers] if of_words else [numbers, words]
        table = handle(b, number, of_words)
        b.op_many("HASHTABLE_IMPORT", [table, *pair], [], RawAttrs("HashtableImportOptions"))
    return b.build()


def finding(init: Graph | None, of_words: bool = True, number: int = 0) -> Model:
    b = builder("main")
    key, value = (DType.STRING, DType.INT64) if of_words else (DType.INT64, DType.STRING)
    x = b.input("x", key, (2, 3))
    if init is not None:
        b.op_many("CALL_ONCE", [], [], RawAttrs("CallOnceOptions"))
        b.graph.ops[-1].regions = [init]
    table = handle(b, number, of_words)
    default = strings("none", b"?") if value is DType.STRING else None
    if default is None:
        default = b.constant("none", np.array([-5], np.int64))
    else:
        b.graph.tensors.append(default)
    y = b.op(
        "HASHTABLE_FIND",
        [table, x, default],
        RawAttrs("HashtableFindOptions"),
        name="y",
        dtype=value,
        shape=(2, 3),
    )
    attrs = RawAttrs("HashtableSizeOptions")
    size = b.op("HASHTABLE_SIZE", [table], attrs, name="size", dtype=DType.INT64, shape=(1,))
    return Model([b.output(y, size).build(), *([init] if init is not None else [])])


@pytest.mark.parametrize("of_words", [True, False])
def test_tables_find_what_litert_finds(of_words: bool) -> None:
    content = dumps(finding(filling(True, False), of_words, 0 if of_words else 1), "tflite")
    query = np.array([[b"bb", b"a", b"c"], [b"", b"\xff", b"aa"]], object)
    if not of_words:
        query = np.array([[7, 8, 3], [1 << 40, -1, 0]], np.int64)
    found, size = Session(content).run([query]).values()
    none = -5 if of_words else b"?"
    table = dict(zip(reversed(WORDS), reversed(NUMBERS), strict=True))
    if not of_words:
        table = dict(zip(NUMBERS, WORDS, strict=True))  # type: ignore[arg-type]
    wanted = [[table.get(key, none) for key in row] for row in query.tolist()]
    assert found.tolist() == wanted and size.tolist() == [len(table)]
    peers = litert_results(content, [query])
    assert [peer.tolist() for peer in peers] == [wanted, [len(table)]]


def test_what_fills_tables_is_gone_and_nothing_else() -> None:
    graph = finding(filling(True)).main
    assert resolve_tables(graph)
    assert [op.kind for op in graph.ops] == ["HASHTABLE_FIND", "HASHTABLE_SIZE"]
    assert not resolve_tables(graph)


def test_a_table_that_nothing_fills_is_refused() -> None:
    with pytest.raises(GraphError, match="never filled"):
        resolve_tables(finding(None).main)


def test_a_table_that_is_filled_with_computed_keys_is_refused() -> None:
    init = filling(True)
    assert init.ops[1].inputs[1] is not None
    init.ops[1].inputs[1].data = None
    with pytest.raises(GraphError, match="constants"):
        resolve_tables(finding(init).main)


def test_a_handle_that_the_caller_gives_is_refused() -> None:
    model = finding(filling(True))
    main = model.main
    main.inputs.append(main.ops[1].outputs[0])
    del main.ops[1]
    with pytest.raises((GraphError, UnsupportedOpsError)):
        Session(dumps(model, "tflite"))


def lookup(keys: list[int], values: Tensor) -> bytes:
    b = builder()
    ids = b.input("ids", DType.INT32, (6,))
    table = b.constant("keys", np.array(keys, np.int32))
    b.graph.tensors.append(values)
    types = [(values.dtype, (6, *values.shape[1:])), (DType.UINT8, (6,))]
    outputs = [b.tensor(name, *kind) for name, kind in zip(("y", "hits"), types, strict=True)]
    b.op_many("HASHTABLE_LOOKUP", [ids, table, values], outputs)
    return dumps(b.output(*outputs).model(), "tflite")


@pytest.mark.parametrize("keys", [[-7, 2, 5, 90], [2, 2, 2, 2], [9, 1, 5, 3]])
@pytest.mark.parametrize("kind", ["float32", "int8", "strings"])
def test_lookups_give_the_rows_that_litert_gives(keys: list[int], kind: str) -> None:
    rows = np.arange(12).reshape(4, 3) + 1
    values = strings("rows", b"a", b"b", b"", b"dd")
    if kind != "strings":
        values = Tensor("rows", DType(kind.upper()), (4, 3), data=rows.astype(kind))
    content = lookup(keys, values)
    ids = np.array([2, 5, -7, 3, 90, 1], np.int32)
    results = [result.tolist() for result in Session(content).run([ids]).values()]
    assert results == [peer.tolist() for peer in litert_results(content, [ids])]


SPARSE_IDS = np.array([1, 3, 0, 1, 2], np.int32)
SPARSE_PLACES = np.array([[0, 0], [0, 1], [1, 0], [3, 2], [0, 3]], np.int32)


def sparse_lookup(combiner: str, is_open: bool) -> bytes:
    b = builder()
    ids = b.input("ids", DType.INT32, (5,))
    places = b.input("places", DType.INT32, (5, 2))
    sizes = np.array([4, 4], np.int32)
    shape = b.input("sizes", DType.INT32, (2,)) if is_open else b.constant("sizes", sizes)
    weights = b.input("weights", DType.FLOAT32, (5,))
    table = b.constant("table", np.arange(24, dtype=np.float32).reshape(4, 3, 2) / 7)
    attrs = EmbeddingLookupSparseAttrs(combiner)
    operands = [ids, places, shape, weights, table]
    y = b.op("EMBEDDING_LOOKUP_SPARSE", operands, attrs, name="y", dtype=DType.FLOAT32)
    return dumps(b.output(y).model(), "tflite")


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("combiner", ["SUM", "MEAN", "SQRTN"])
def test_weighted_rows_are_those_of_litert(combiner: str, is_open: bool) -> None:
    content = sparse_lookup(combiner, is_open)
    given = [SPARSE_IDS, SPARSE_PLACES, np.array([2, 0.5, 1, 3, -1], np.float32)]
    if is_open:
        given.insert(2, np.array([4, 4], np.int32))
    (result,) = Session(content).run(given).values()
    assert result.shape == (4, 3, 2)
    np.testing.assert_allclose(result[3], np.arange(6, 12).reshape(3, 2) / 7 * _factor(combiner))
    (wanted,) = litert_results(content, given)
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


def _factor(combiner: str) -> float:
    return 3 if combiner == "SUM" else 1


@pytest.mark.parametrize(("ids", "places"), [([1, 3, 0, 1, 4], None), (None, [4, 0])])
def test_indices_outside_are_errors(ids: list[int] | None, places: list[int] | None) -> None:
    given = [SPARSE_IDS.copy(), SPARSE_PLACES.copy(), np.ones(5, np.float32)]
    if ids is not None:
        given[0][:] = ids
    if places is not None:
        given[1][2] = places
    with pytest.raises(GraphError):
        Session(sparse_lookup("SUM", False)).run(given)
