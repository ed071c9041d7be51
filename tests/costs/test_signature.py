"""Which operators are equal to the model of costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.costs.signature import signature_of
from circlet.ir import DType, Op, Quantization
from circlet.ops.build import builder
from tests.costs.test_model import convolution, relu


def key(op: Op) -> str:
    return signature_of(op).key


def transposed(order: list[int]) -> Op:
    made = builder()
    image = made.input("x", DType.FLOAT32, (4, 4, 4))
    turned = made.op("TRANSPOSE", [image, made.constant("order", np.array(order, np.int32))])
    return made.output(turned).build().ops[0]


def quantised(quant: Quantization) -> Op:
    op = convolution(8, 8, 8)
    weights = op.inputs[1]
    assert weights is not None
    op.inputs[1] = replace(weights, quant=quant)
    return op


def test_weights_names_and_scales_do_not_matter() -> None:
    assert key(convolution(8, 8, 8, seed=1)) == key(convolution(8, 8, 8, seed=2))
    scales = (Quantization.per_tensor(0.5), Quantization.per_tensor(0.25))
    assert key(quantised(scales[0])) == key(quantised(scales[1]))


def test_sizes_and_attributes_matter() -> None:
    op = convolution(8, 8, 8, 3)
    assert key(op) != key(convolution(9, 8, 8, 3))
    assert key(op) != key(replace(op, attrs=replace(op.attrs, strides=(2, 2))))  # type: ignore[type-var]


def test_values_that_say_places_matter() -> None:
    assert key(transposed([0, 2, 1])) == key(transposed([0, 2, 1]))
    assert key(transposed([0, 2, 1])) != key(transposed([2, 1, 0]))


def test_kinds_of_quantisation_matter() -> None:
    kinds = [
        Quantization.per_tensor(0.5),
        Quantization.per_tensor(0.5, 3),
        Quantization.per_channel(np.ones(8), 0),
        Quantization.per_channel(np.ones(8), 3),
    ]
    assert len({key(quantised(kind)) for kind in kinds}) == 4


def test_constants_differ_from_what_is_computed() -> None:
    op = convolution(8, 8, 8)
    weights = op.inputs[1]
    assert weights is not None
    computed = replace(op, inputs=[op.inputs[0], replace(weights, data=None), op.inputs[2]])
    assert key(op) != key(computed)


def test_one_operand_read_twice_is_not_two() -> None:
    def added(twice: bool) -> Op:
        made = builder()
        one, other = (made.input(name, DType.FLOAT32, (4,)) for name in "ab")
        return made.output(made.op("ADD", [one, one if twice else other])).build().ops[0]

    assert key(added(True)) != key(added(False))


def test_features_are_what_the_record_says() -> None:
    found = signature_of(convolution(8, 4, 16))
    assert found.features.computing == 8 * 8 * 4 * 16
    assert found.features.data_bytes == 4 * (8 * 8 * 4 + 8 * 8 * 16)
    assert found.features.weight_bytes == 4 * (4 * 16 + 16)
    assert found.features.outputs == 8 * 8 * 16
    assert found.family == "CONV_2D FLOAT32-FLOAT32-FLOAT32"
    assert found.group == "products"
    assert signature_of(relu(8)).group == "arithmetic"
    assert signature_of(transposed([0, 2, 1])).group == "movement"
