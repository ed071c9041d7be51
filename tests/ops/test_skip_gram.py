from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.errors import LimitError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.ops.skip_gram import SkipGramAttrs
from tests.strings import litert_results


def network(*attrs: int) -> bytes:
    b = builder()
    x = b.input("x", DType.STRING, (1,))
    made = SkipGramAttrs(attrs[0], attrs[1], bool(attrs[2]))
    return dumps(b.output(b.op("SKIP_GRAM", [x], made, name="y")).model(), "tflite")


def grams(text: bytes, *attrs: int) -> list[bytes]:
    (result,) = Session(network(*attrs)).run([np.array([text], object)]).values()
    found: list[bytes] = result.tolist()
    return found


def test_words_that_follow_each_other() -> None:
    assert grams(b"the quick brown fox", 2, 0, 0) == [b"the quick", b"quick brown", b"brown fox"]
    assert grams(b"a b c", 2, 1, 1) == [b"a b", b"a c", b"a", b"b c", b"b", b"c"]


@pytest.mark.parametrize(
    "text", [b"a b c d e", b"  a\tb  c\n", b" a", b"", b"a", b"one \xff\xfe two"]
)
@pytest.mark.parametrize(
    "attrs", [(1, 0, 0), (2, 0, 0), (3, 2, 1), (3, 9, 0), (0, 1, 1), (2, 1, 1)]
)
def test_lists_are_those_of_litert(text: bytes, attrs: tuple[int, ...]) -> None:
    (wanted,) = litert_results(network(*attrs), [np.array([text], object)])
    assert grams(text, *attrs) == wanted.tolist()


def test_a_text_cannot_ask_for_more_memory_than_is_allowed() -> None:
    session = Session(network(20, 50, 0), limits=Limits(memory_bytes=1 << 28))
    with pytest.raises(LimitError, match="lists of words"):
        session.run(
            [np.array([b"a b c d e f g h i j k l m n o p q r s t u v w x y z" * 4], object)]
        )
