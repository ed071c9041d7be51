"""Which outputs have a score for each class, from the graph."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats.score_evidence import gives_scores
from circlet.ir import DType, Graph, Op, Origin, Tensor
from circlet.ops.fully_connected import FullyConnectedAttrs

PICTURE = (1, 32, 32, 3)


def network(
    kinds: tuple[str, ...],
    count: int,
    *,
    shape: tuple[int, ...] = PICTURE,
    name: str = "y",
    activation: str = "NONE",
) -> bool:
    """What is said of the last of some operators, each of which reads the one before."""
    first = tensor = Tensor("x", DType.FLOAT32, shape)
    ops = []
    for index, kind in enumerate(kinds):
        made = Tensor(f"t{index}", DType.FLOAT32, (1, count))
        constant = Tensor("c", DType.FLOAT32, (count,), data=np.ones(count, np.float32))
        attrs = FullyConnectedAttrs(activation=activation) if kind == "FULLY_CONNECTED" else None
        code = kind.removeprefix("CUSTOM:") if kind.startswith("CUSTOM:") else ""
        inputs = [tensor, constant] if kind in ("ADD", "FULLY_CONNECTED", "MUL") else [tensor]
        ops.append(
            Op(kind.partition(":")[0], [*inputs], [made], attrs, Origin.of(index, kind),
               custom_code=code)
        )  # fmt: skip
        tensor = made
    tensor.name = name
    return gives_scores(Graph("g", [first], [tensor], ops), tensor)


@pytest.mark.parametrize("moves", [(), ("QUANTIZE",), ("RESHAPE", "DEQUANTIZE"), ("CAST",)])
@pytest.mark.parametrize("kind", ["SOFTMAX", "LOG_SOFTMAX", "LOGISTIC"])
def test_scores_are_made_by_a_softmax_or_a_logistic(kind: str, moves: tuple[str, ...]) -> None:
    assert network(("FULLY_CONNECTED", kind, *moves), 3)
    assert not network(("FULLY_CONNECTED", "RELU", *moves), 3)


@pytest.mark.parametrize("count", [1000, 1001, 100, 10])
def test_a_classifier_of_pictures_may_lack_its_softmax(count: int) -> None:
    assert network(("FULLY_CONNECTED",), count)
    assert network(("FULLY_CONNECTED", "ADD", "RESHAPE"), count)
    assert not network(("FULLY_CONNECTED",), count, activation="RELU")
    assert not network(("FULLY_CONNECTED", "MUL"), count)
    assert not network(("FULLY_CONNECTED",), count, shape=(1, 64))


@pytest.mark.parametrize("count", [2, 4, 5, 136, 640, 1280])
def test_coordinates_and_embeddings_are_no_classes(count: int) -> None:
    assert not network(("FULLY_CONNECTED",), count)


def test_a_mask_of_an_input_is_no_list_of_classes() -> None:
    assert not network(("FULLY_CONNECTED", "LOGISTIC"), 257, shape=(1, 1, 257))
    assert network(("FULLY_CONNECTED", "SOFTMAX"), 64, shape=(1, 8, 8))


@pytest.mark.parametrize("name", ["probabilities", "logits", "Class_Scores", "Softmax:0"])
def test_a_name_may_say_so(name: str) -> None:
    assert network(("FULLY_CONNECTED",), 5, shape=(1, 64), name=name)


def test_an_input_that_is_given_back_says_nothing() -> None:
    x = Tensor("x", DType.FLOAT32, (1, 10))
    assert not gives_scores(Graph("g", [x], [x], []), x)
