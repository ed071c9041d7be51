"""Language models as exporters write them: prompts, and words one by one over caches in place."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from bench.decoder import Decoder, cache_names, feeds, model_bytes, tiny
from circlet.errors import InputError

pytest.importorskip("onnx", reason="the package onnx is not installed")

_LENGTH = 24
FORMS = {
    "4 bits": tiny(),
    "4 bits, zero points, long blocks": tiny(block=64, zeros=True, heads=2, groups=1),
    "8 bits": tiny(bits=8),
    "floats": tiny(bits=32),
}


def opened(decoder: Decoder, rows: int, backend: str) -> circlet.Session:
    given = feeds(decoder, rows, 0, _LENGTH)
    shapes = {name: array.shape for name, array in given.items()}
    return circlet.Session(
        model_bytes(decoder),
        backends=list(dict.fromkeys((backend, "reference"))),
        shapes=shapes,
        cache=False,
    )


def words_one_by_one(decoder: Decoder, session: circlet.Session, count: int) -> np.ndarray:
    """Logits of `count` words, each read in a call of its own over one set of caches."""
    whole = feeds(decoder, count, 0, _LENGTH, fill=False)
    caches = {name: whole[name] for name in cache_names(decoder)}
    word, mask = np.zeros((1, 1), np.int64), np.zeros((1, _LENGTH), np.int64)
    logits = session.outputs[0].empty()
    inputs = {"input_ids": word, "attention_mask": mask, **caches}
    call = session.bind(inputs, [logits, *caches.values()])
    found = []
    for at in range(count):
        word[...], mask[0, at] = whole["input_ids"][0, at], 1
        call()
        found.append(logits.copy())
    return np.concatenate(found, 1)


@pytest.mark.parametrize("name", FORMS)
def test_a_prompt_gives_what_onnx_runtime_gives(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    decoder = FORMS[name]
    given = feeds(decoder, 3, 5, _LENGTH)
    peer = runtime.InferenceSession(model_bytes(decoder), providers=["CPUExecutionProvider"])
    made = list(opened(decoder, 3, "reference").run(given).values())
    for ours, theirs in zip(made, peer.run(None, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_words_one_by_one_are_a_prompt_in_parts() -> None:
    decoder, count = FORMS["4 bits, zero points, long blocks"], 7
    step = opened(decoder, 1, "cpu")
    assert {row["backend"] for row in step.placement} == {"cpu"}
    whole = step.resized({"input_ids": (1, count)})
    prompt = whole.run(feeds(decoder, count, 0, _LENGTH, fill=False))["logits"]
    reference = opened(decoder, count, "reference")
    wanted = reference.run(feeds(decoder, count, 0, _LENGTH, fill=False))["logits"]
    np.testing.assert_allclose(prompt, wanted, rtol=1e-4, atol=2e-5)
    one_by_one = words_one_by_one(decoder, step, count)
    np.testing.assert_allclose(one_by_one, wanted, rtol=1e-4, atol=2e-5)


def test_outputs_say_which_inputs_they_continue() -> None:
    session = opened(tiny(bits=32), 1, "reference")
    names = [value.name for value in session.inputs]
    for value in session.outputs[1:]:
        assert names[value.continues] == value.name.replace("present", "past_key_values")
    assert session.outputs[0].continues == -1


def test_a_cache_is_no_room_for_another_one() -> None:
    decoder = tiny(bits=32)
    session = opened(decoder, 1, "reference")
    given = feeds(decoder, 1, 0, _LENGTH)
    caches = [given[name] for name in cache_names(decoder)]
    with pytest.raises(InputError, match="shares memory"):
        session.bind(given, [session.outputs[0].empty(), *caches[::-1]])
