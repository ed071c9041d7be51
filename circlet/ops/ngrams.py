"""N-grams and tokens of texts: the operators of TensorFlow Text that .tflite files carry.

`TFText>NgramsStringJoin` has the older name `tftext:Ngrams`; of `tftext:WhitespaceTokenizer`
`TFText>WhitespaceTokenizeWithOffsetsV2` is the newer form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import operand, present, when_ranked

# Unicode's property White_Space.
_WHITE_SPACE = frozenset(
    (
        *range(0x9, 0xE),
        *(0x20, 0x85, 0xA0, 0x1680),
        *range(0x2000, 0x200B),
        *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
    )
)
_MOST_SPLITS = 8


@dataclass(frozen=True)
class NgramsAttrs:
    """How many neighbours along the last axis are joined, and what stands between them."""

    width: int = 0
    string_separator: str = " "
    axis: int = -1
    reduction_type: str = "STRING_JOIN"


def _joined(attrs: NgramsAttrs, texts: list[bytes]) -> list[bytes]:
    between, count = attrs.string_separator.encode(), len(texts) - attrs.width + 1
    return [between.join(texts[first : first + attrs.width]) for first in range(count)]


def _infer_ngrams(op: Op) -> list[TensorType]:
    values, width = operand(op, 0), op.attributes(NgramsAttrs).width
    if len(op.inputs) > 1:
        splits = (TensorType(DType.INT64, operand(op, i).shape) for i in range(1, len(op.inputs)))
        return [TensorType(DType.STRING, (None,)), *splits]
    if not values.has_rank or not values.shape:
        return [TensorType(DType.STRING, op.outputs[0].shape)]
    last = values.shape[-1]
    made = None if last is None else max(0, last - width + 1)
    return [TensorType(DType.STRING, (*values.shape[:-1], made))]


def _checked_splits(op: Op, splits: np.ndarray, count: int) -> list[int]:
    """Where rows start and end, which must be in order and within so many values."""
    bounds = [int(bound) for bound in splits.reshape(-1)]
    if not bounds or bounds[0] < 0 or bounds[-1] > count or bounds != sorted(bounds):
        raise GraphError(
            "row splits do not fit the values",
            where=op.name,
            why=f"splits must rise from 0 to {count}, the number of values",
        )
    return bounds


def _evaluate_ngrams(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, values = op.attributes(NgramsAttrs), present(inputs[0])
    if len(inputs) == 1:
        rows = (
            values.reshape(-1, values.shape[-1]) if values.size else values[..., :0].reshape(0, 0)
        )
        made = [text for row in rows.tolist() for text in _joined(attrs, row)]
        return [
            _texts(made).reshape(*values.shape[:-1], max(0, values.shape[-1] - attrs.width + 1))
        ]
    bounds = _checked_splits(op, present(inputs[-1]), values.size)
    texts, made, ends = values.reshape(-1).tolist(), [], [0]
    for first, last in pairwise(bounds):
        made += _joined(attrs, texts[first:last])
        ends.append(len(made))
    return [_texts(made), *map(present, inputs[1:-1]), np.array(ends, np.int64)]


def _texts(texts: list[bytes]) -> np.ndarray:
    result = np.empty(len(texts), object)
    result[:] = texts
    return result


_NGRAM_RULES = (
    Rule(
        "width",
        lambda op: op.attributes(NgramsAttrs).width >= 1,
        "the width must be 1 or more",
        sized=False,
    ),
    Rule(
        "axis",
        lambda op: op.attributes(NgramsAttrs).axis == -1,
        "only neighbours along the last axis are joined",
        sized=False,
    ),
    Rule(
        "reduction",
        lambda op: op.attributes(NgramsAttrs).reduction_type == "STRING_JOIN",
        "only joining texts is defined",
        sized=False,
    ),
    Rule(
        "outputs", lambda op: len(op.outputs) == len(op.inputs), "it has as many outputs as inputs"
    ),
    when_ranked("values", lambda op: len(operand(op, 0).shape) > 0, "the texts need an axis"),
)

for _code in ("TFText>NgramsStringJoin", "tftext:Ngrams"):
    register(
        OpDef(
            kind=f"CUSTOM:{_code}",
            attrs=NgramsAttrs,
            arity=(1, 1 + _MOST_SPLITS),
            outputs=None,
            dtypes=(f"STRING {'INT64 ' * _MOST_SPLITS}-> STRING",),
            infer=_infer_ngrams,
            evaluate=_evaluate_ngrams,
            rules=_NGRAM_RULES,
        )
    )


def _characters(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Code point, start and end of each character; -1 for each byte of what is no UTF-8."""
    start = 0
    for character in text.decode(errors="surrogateescape"):
        size = len(character.encode(errors="surrogateescape"))
        is_text = not "\udc80" <= character <= "\udcff"
        yield ord(character) if is_text else -1, start, start + size
        start += size


def _tokens(text: bytes, is_space: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Starts of tokens, and ends of the characters behind them, or of the text."""
    begun = -1
    for point, start, end in _characters(text):
        if not is_space(point):
            begun = start if begun < 0 else begun
        elif begun >= 0:
            yield begun, end
            begun = -1
    if begun >= 0:
        yield begun, len(text) + 1


def _space_of(config: bytes) -> Callable[[int], bool]:
    """What counts as white space by a bit for each code point."""
    bits = frozenset(
        np.flatnonzero(np.unpackbits(np.frombuffer(config, np.uint8), bitorder="little")).tolist()
    )
    return bits.__contains__


def _evaluate_with_offsets(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """As the kernel has it, a token ends one byte before the white space behind it does."""
    is_space = _space_of(present(inputs[1]).reshape(-1)[0])
    tokens: list[bytes] = []
    starts, ends, splits = [], [], [0]
    for text in present(inputs[0]).reshape(-1).tolist():
        for start, behind in _tokens(text, is_space):
            starts.append(start)
            ends.append(behind - 1)
            tokens.append(text[start : behind - 1])
        splits.append(len(tokens))
    places = [np.array(found, np.int32) for found in (starts, ends)]
    return [_texts(tokens), np.array(splits, np.int64), *places]


def _infer_with_offsets(op: Op) -> list[TensorType]:
    shape = operand(op, 0).shape
    rows = None if len(shape) != 1 or shape[0] is None else shape[0] + 1
    places = TensorType(DType.INT32, (None,))
    made = TensorType(DType.STRING, (None,)), TensorType(DType.INT64, (rows,))
    return [*made, places, places]


register(
    OpDef(
        kind="CUSTOM:TFText>WhitespaceTokenizeWithOffsetsV2",
        arity=(2, 2),
        outputs=4,
        required=2,
        dtypes=("STRING STRING -> STRING",),
        infer=_infer_with_offsets,
        evaluate=_evaluate_with_offsets,
        rules=(
            when_ranked(
                "texts", lambda op: len(operand(op, 0).shape) == 1, "it takes a list of texts"
            ),
            when_ranked(
                "config", lambda op: 0 not in operand(op, 1).shape, "the configuration is missing"
            ),
        ),
    )
)


def _evaluate_tokenizer(op: Op, inputs: Arrays) -> list[np.ndarray]:
    texts = present(inputs[0])
    tokens: list[bytes] = []
    splits = [0]
    for text in texts.reshape(-1).tolist():
        points = {end: start for point, start, end in _characters(text) if point in _WHITE_SPACE}
        for start, behind in _tokens(text, _WHITE_SPACE.__contains__):
            tokens.append(text[start : points.get(behind, len(text))])
        splits.append(len(tokens))
    made = [_texts(tokens)]
    if texts.ndim > 0:
        made.append(np.array(splits, np.int64))
    if texts.ndim > 1:
        made.append(np.arange(len(texts) + 1, dtype=np.int64) * texts.shape[1])
    return made


def _infer_tokenizer(op: Op) -> list[TensorType]:
    return [TensorType(tensor.dtype, (None,)) for tensor in op.outputs]


register(
    OpDef(
        kind="CUSTOM:tftext:WhitespaceTokenizer",
        arity=(1, 1),
        outputs=None,
        dtypes=("STRING -> STRING",),
        infer=_infer_tokenizer,
        evaluate=_evaluate_tokenizer,
        rules=(
            when_ranked(
                "outputs",
                lambda op: len(op.outputs) == len(operand(op, 0).shape) + 1 <= 3,
                "it gives tokens, and row splits for each axis of a text, a list or a table",
            ),
            Rule(
                "splits",
                lambda op: all(tensor.dtype is DType.INT64 for tensor in op.outputs[1:]),
                "row splits must be INT64",
                sized=False,
            ),
        ),
    )
)
