"""SKIP_GRAM: the lists of words that follow each other in a text, some left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op
from circlet.ops.guard import current_guard
from circlet.ops.opdef import Arrays, OpDef, TensorType, register
from circlet.ops.operands import operand, present, when_ranked
from circlet.words import counted

_SPACES = b" \t\n\v\f\r"
_GRAM_BYTES = 64  # of a short string as an object, besides its bytes


@dataclass(frozen=True)
class SkipGramAttrs:
    """How many words an n-gram has, how many may be skipped, and whether shorter ones count."""

    ngram_size: int = 0
    max_skip_size: int = 0
    include_all_ngrams: bool = False


def words(text: bytes) -> list[bytes]:
    """The words of a text as LiteRT's kernel takes them apart.

    The first byte starts a word even where it is a space, and such a word is only kept as the last.
    """
    found, start = [], 0
    for place in range(1, len(text)):
        if text[place] in _SPACES:
            if place > start and text[start] not in _SPACES:
                found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]] if len(text) > start else found


def _grams(count: int, attrs: SkipGramAttrs) -> Iterator[list[int]]:
    """The places of the words of each n-gram, longer ones before those that they start with."""
    step, size = attrs.max_skip_size + 1, attrs.ngram_size
    for first in range(count):
        chosen, next_place = [first], [first + 1]
        while chosen:
            place = next_place[-1]
            if len(chosen) < size and place < count and place - chosen[-1] <= step:
                next_place[-1] += 1
                chosen.append(place)
                next_place.append(place + 1)
                continue
            if len(chosen) == size or attrs.include_all_ngrams:
                yield list(chosen)
            chosen.pop()
            next_place.pop()


def _gram_count(count: int, attrs: SkipGramAttrs) -> int:
    """How many n-grams there are, counted by their last words."""
    ending, total = [1] * count, 0
    for size in range(1, min(attrs.ngram_size, count) + 1):
        if attrs.include_all_ngrams or size == attrs.ngram_size:
            total += sum(ending)
        sums = [0]
        for number in ending:
            sums.append(sums[-1] + number)
        ending = [sums[i] - sums[max(0, i - attrs.max_skip_size - 1)] for i in range(count)]
    return total


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    attrs, texts = op.attributes(SkipGramAttrs), present(inputs[0]).reshape(-1)
    found = words(texts[0])
    if attrs.ngram_size <= 0 or len(found) < attrs.ngram_size:
        return [np.empty(0, object)]
    count = _gram_count(len(found), attrs)
    size = attrs.ngram_size * (max(map(len, found)) + 1) + _GRAM_BYTES
    budget = current_guard().budget
    budget.charge(count * size, f"{op.name} ({op.label})", f"{counted(count, 'list')} of words")
    budget.release(count * size)
    result = np.empty(count, object)
    for place, gram in enumerate(_grams(len(found), attrs)):
        result[place] = b" ".join(found[word] for word in gram)
    return [result]


register(
    OpDef(
        kind="SKIP_GRAM",
        attrs=SkipGramAttrs,
        arity=(1, 1),
        dtypes=("STRING -> STRING",),
        infer=lambda op: [TensorType(DType.STRING, (None,))],
        evaluate=_evaluate,
        rules=(when_ranked("text", lambda op: 0 not in operand(op, 0).shape, "there is no text"),),
    )
)
