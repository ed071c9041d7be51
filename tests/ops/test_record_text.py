from __future__ import annotations

import pytest

from circlet.errors import CircletError
from circlet.formats import load
from circlet.ops.text import parse, to_text
from tests.corpora import ROOT, corpus, models, single_ops

MOST_BYTES = 200_000
FILES = [f"models/{name}" for name in models()] + [
    f"singleop/models/{name}" for name in single_ops()
]
SMALL = [name for name in FILES if (ROOT / name).stat().st_size < MOST_BYTES]


@pytest.mark.parametrize("part", range(8))
def test_text_of_real_networks_round_trips(part: int) -> None:
    corpus("models")
    for name in SMALL[part::8]:
        try:
            model = load(ROOT / name)
        except CircletError:
            continue
        text = to_text(model)
        assert to_text(parse(text)) == text, name


def test_attributes_of_a_custom_operator_follow_its_code() -> None:
    model = load(corpus("models/ssd_mobilenet_v1_postprocess_head.tflite"))
    parsed = parse(to_text(model))
    assert parsed.main.ops[-1].kind == "CUSTOM"
    assert parsed.main.ops[-1].attrs == model.main.ops[-1].attrs
