from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from circlet.errors import FormatError
from circlet.ir import (
    BlockwiseQuant,
    DType,
    Model,
    OpaqueQuant,
    Quantization,
    RawAttrs,
    Requantization,
    Sparsity,
    Tensor,
)
from circlet.ir.builder import Builder
from circlet.ir.parse import from_text
from circlet.ir.text import to_text

pytestmark = pytest.mark.smoke


@dataclass(frozen=True)
class ToyAttrs:
    padding: str = "SAME"
    stride: int = 1
    sizes: tuple[int, ...] = ()


def attrs_of(kind: str) -> type | None:
    return ToyAttrs if kind == "TOY" else None


def read(text: str) -> Model:
    return from_text(text, attrs_of, "note")


def small() -> Model:
    b = Builder("main")
    x = b.input("x", DType.INT8, (1, None), Quantization.per_tensor(0.1, -3))
    w = b.constant("w", np.array([1, 2], np.float32))
    y = b.op("TOY", [x, w, None], ToyAttrs("VALID", sizes=(3,)), name="y", shape=(None, 2))
    return b.output(y).model("serve")


SMALL = """model
graph "main"
in %x: INT8[1,?] scale=[0.1] zero=-3
const %w: FLOAT32[2] = [1.0, 2.0]
%y: INT8[?,2] = TOY(%x, %w, _) {padding="VALID", sizes=(3)} from 0 "y"
out %y
signature "serve" graph 0 ("x": %x) -> ("y": %y)
"""


def test_text_reads_as_one_op_per_line() -> None:
    assert to_text(small()) == SMALL


def test_parsed_model_equals_the_printed_one() -> None:
    model = read(SMALL)
    (op,), (x, w, y) = model.main.ops, model.main.tensors
    assert (op.kind, op.inputs, op.outputs, op.name) == ("TOY", [x, w, None], [y], "y")
    assert op.attrs == ToyAttrs("VALID", 1, (3,))
    assert (x.shape, x.dtype, y.shape) == ((1, None), DType.INT8, (None, 2))
    assert x.quant is not None and x.quant.same_as(Quantization.per_tensor(0.1, -3))
    assert w.data is not None and w.data.tolist() == [1.0, 2.0] and not w.data.flags.writeable
    assert model.signatures[0].outputs == {"y": y}


def odd_names() -> Model:
    b = Builder('a "quoted"\n graph')
    x = b.input("twice", DType.FLOAT32, ())
    y = b.op("TOY", [x], ToyAttrs(), name="twice", shape=())
    return b.output(b.op("TOY", [y], name="", shape=(), origin=b.graph.ops[0].origin)).model()


def special_tensors() -> Model:
    b = Builder()
    x = b.input("x", DType.FLOAT32, (None, 2))
    x.default_shape, x.has_rank = (1, 2), True
    state = b.variable("state", DType.FLOAT32, (2,))
    open_rank = b.tensor("open", DType.FLOAT32, ())
    open_rank.has_rank = False
    big = b.constant("big", np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    packed = b.constant("int4", np.arange(3, dtype=np.uint8), dtype=DType.INT4, shape=(5,))
    odd = b.constant("odd", np.array([np.nan, np.inf], np.float64))
    flags = b.constant("flags", np.array([True, False]))
    y = b.op("TOY", [x, state, big, packed, odd, flags], name="y", shape=(2,))
    b.graph.tensors.reverse()
    return b.output(y).model(metadata={"notes": b"\x00\x01"})


def special_quant() -> Model:
    b = Builder()
    channels = Quantization.per_channel([0.1, 1e-9, 3.0], 1, [1, 2, 3])
    x = b.input("x", DType.INT8, (2, 3), channels)
    ranged = Quantization(
        np.zeros(0, np.float32), np.zeros(0, np.int64), 0, channels.scale, channels.scale
    )
    b.tensor("ranged", DType.FLOAT32, (1,), ranged)
    scales = b.constant("scales", np.ones((2, 1), np.float32))
    zeros = b.constant("zeros", np.zeros((2, 1), np.int32))
    for name, points in (("block", None), ("moved", zeros)):
        details = BlockwiseQuant(scales, points, 32)
        block = Quantization(ranged.scale, ranged.zero_point, details=details)
        b.tensor(name, DType.INT4, (1,), block)
    opaque = OpaqueQuant("MXQuantization", {"axis": 1, "blob": b"\xff", "deep": {"a": [1.5, None]}})
    b.tensor(
        "mx", DType.MXFP4, (1,), Quantization(ranged.scale, ranged.zero_point, 0, details=opaque)
    )
    return b.output(x).model()


def special_ops() -> Model:
    b = Builder()
    x = b.input("x", DType.FLOAT32, (1,))
    raw = RawAttrs("ThingOptions", {"a": 1, "b": -2.5, "c": (True, "s")}, b"\x01\x02")
    b.op("CUSTOM", [x], raw, name="c", shape=(1,), version=3, custom_code="Mystery %x")
    b.op_many("TOY", [x], [Tensor("l", DType.INT32, ()), Tensor("r", DType.BOOL, (0,))], ToyAttrs())
    b.op_many("CALL_ONCE", [], [], RawAttrs("CallOnceOptions"))
    b.graph.ops[-1].regions = [b.graph]
    b.graph.ops[1].requantization = Requantization("single", 64)
    b.graph.ops[0].intermediates.append(b.tensor("inner", DType.INT8, (1,)))
    b.graph.ops[0].extra["left"] = {"over": 1}
    sparse = b.constant("sparse", np.ones(2, np.float32), shape=(4,))
    sparse.sparsity = Sparsity([0], [], [{"format": "DENSE", "dense_size": 4}])
    return b.output(x).model()


@pytest.mark.parametrize("make", [small, odd_names, special_tensors, special_quant, special_ops])
def test_text_round_trips(make: Callable[[], Model]) -> None:
    text = to_text(make())
    assert to_text(read(text)) == text


def test_stored_data_comes_back_bit_for_bit() -> None:
    model = special_tensors()
    for before, after in zip(model.main.tensors, read(to_text(model)).main.tensors, strict=True):
        assert before.name == after.name and before.is_variable == after.is_variable
        assert (before.data is None) == (after.data is None)
        if before.data is not None and after.data is not None:
            assert before.data.tobytes() == after.data.tobytes()
            assert (before.data.dtype, before.data.shape) == (after.data.dtype, after.data.shape)


def test_left_out_data_cannot_be_read() -> None:
    text = to_text(special_tensors(), data=False)
    assert "payload" not in text
    with pytest.raises(FormatError, match="left out"):
        read(text)


BROKEN = {
    "in %x: FLOAT99[1]": ("there is no such element type", 2, 8),
    "in %x FLOAT32[1]": ("%x is not defined before this place", 2, 4),
    "in %x: FLOAT32[1": ("',' or ']' expected", 3, 1),
    "frob": ("a statement expected", 2, 1),
    "out %y": ("%y is not defined before this place", 2, 5),
    'in %x: INT8[1]\n%y: INT8[1] = TOY(%x) {size=1} from 0 "y"': (
        "TOY has no attribute size",
        3,
        30,
    ),
    'in %x: INT8[1]\n%y: INT8[1] = HM(%x) {a=1} from 0 "y"': ("HM has no record", 3, 26),
    "in %x: INT8[1]\n%y: INT8[1] = TOY(%x)": ("'from' expected", 3, 22),
    "in %x: INT8[1] &": ("a character has no meaning here", 2, 16),
    "in %x: INT8[1]\nin %x: INT8[1]": ("%x is defined twice", 3, 4),
    "const %x: INT8[2] = [1]": ("2 elements expected, not 1", 2, 23),
    "const %x: INT8[1] = [300]": ("an element does not fit INT8", 2, 25),
    "in %x: INT8[1] scale=7": ("an option of this tensor has a wrong value", 2, 22),
    'in %x: INT8[1] extra={"a": ' + "[" * 40: ("values are nested deeper than 32", 2, 60),
    'payload $0 int8[3] "AAA"': ("a payload is not base64", 2, 20),
    'payload $0 int8[-1,-3] "AAAA"': ("a payload does not fit its type and shape", 2, 24),
    'payload $0 int8[3] "AAAA" 3': ("the end of the line expected", 2, 27),
    'signature "s" graph 3 () -> ()': ("there is no such graph", 2, 21),
}


@pytest.mark.parametrize("lines", BROKEN)
def test_errors_name_line_and_column(lines: str) -> None:
    message, line, column = BROKEN[lines]
    with pytest.raises(FormatError) as caught:
        read(f'graph "g"\n{lines}\n')
    assert message in caught.value.what
    assert caught.value.where == f"note, line {line}, column {column}"


def test_missing_payload_is_refused() -> None:
    with pytest.raises(FormatError, match="a payload is missing"):
        read('graph "g"\nconst %x: INT8[2] = $0')


def test_any_cut_of_a_text_is_read_or_refused() -> None:
    text = to_text(special_tensors()) + to_text(special_ops())
    refused = 0
    for end in range(0, len(text), 7):
        try:
            read(text[:end])
        except FormatError as error:
            assert error.where.startswith("note, ")
            refused += 1
    assert refused > 10
