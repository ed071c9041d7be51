"""Patches added to images give what the record gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.ir import DType
from circlet.ops.onnx.record import PREFIX, OnnxAttrs
from tests.backends.cpu.cases import Cases, each_width

_CODE = f"{PREFIX}Col2Im"


def image(
    cases: Cases, sizes: Sequence[int], taps: Sequence[int], count: int, **given: Sequence[int]
) -> None:
    """Three images of two channels, of so many patches each."""
    columns = cases.data(DType.FLOAT32, (3, 2 * int(np.prod(taps)), count))
    lists = [cases.constant(np.array(values, np.int64)) for values in (sizes, taps)]
    attrs = OnnxAttrs(tuple(sorted((name, tuple(row)) for name, row in given.items())), 18)
    operands = [columns, *lists]
    made = cases.builder.op("CUSTOM", operands, attrs, shape=(3, 2, *sizes), custom_code=_CODE)
    cases.outputs.append(made)


def images(cases: Cases) -> None:
    """Patches that overlap, touch and leave gaps, over one to three axes."""
    image(cases, (5, 37), (3, 3), 3 * 35)
    image(cases, (6, 40), (2, 2), 3 * 20, strides=(2, 2))
    image(cases, (9, 41), (3, 5), 5 * 21, strides=(2, 2), pads=(1, 2, 1, 2))
    image(cases, (9, 20), (2, 3), 7 * 5, strides=(1, 4), dilations=(2, 2), pads=(0, 3, 0, 0))
    image(cases, (7, 11), (2, 2), 2 * 3, strides=(4, 5), pads=(0, 1, 0, 0))
    image(cases, (50,), (4,), 16, strides=(3,))
    image(cases, (4, 5, 19), (2, 3, 3), 3 * 3 * 17, dilations=(1, 1, 1))


@each_width
def test_patches_add_up_to_images(target: str) -> None:
    cases = Cases()
    images(cases)
    cases.check(target, threads=2)
