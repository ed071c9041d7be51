"""Broken and hostile files: a model or a coded error, in bounded time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError
from circlet.formats import load
from tests import corpora

# Refused by rules of operators and of quantisation, after loading.
NOT_AT_LOAD = {
    "sem_conv_no_options.tflite": "stride 0, a rule of CONV_2D",
    "sem_conv_stride_zero.tflite": "stride 0, a rule of CONV_2D",
    "sem_scale_zero.tflite": "scale 0, a rule of tensors",
    "sem_fc_string_input.tflite": "types, a rule of FULLY_CONNECTED",
    "sem_tile_bomb.tflite": "multiples known at run time",
    "sem_pad_negative.tflite": "negative paddings, a rule of PAD",
    "sem_concat_axis_oob.tflite": "axis, a rule of CONCATENATION",
    "sem_custom_unknown.tflite": "an operator that nothing here runs",
    "sem_transpose_bad_perm.tflite": "permutation, a rule of TRANSPOSE",
    "real_conv_huge_im2col.tflite": "memory that a plan would take",
    "sem_reshape_mismatch.onnx": "sizes, a rule of RESHAPE",
    "sem_constantofshape_bomb.onnx": "memory that a plan would take",
}
EXPECTED_CODES = {
    "raw_empty.tflite": "E-FORMAT",
    "raw_trunc_half.tflite": "E-FORMAT",
    "raw_vtable_offset_wild.tflite": "E-FORMAT",
    "raw_buffer_len_1G.tflite": "E-FORMAT",
    "sem_cyclic_graph.tflite": "E-GRAPH",
    "sem_two_producers.tflite": "E-GRAPH",
    "sem_negative_dim.tflite": "E-GRAPH",
    "sem_graph_input_oob.tflite": "E-GRAPH",
    "sem_signature_tensor_oob.tflite": "E-GRAPH",
    "sem_while_true_recursion.tflite": "E-GRAPH",
    "sem_conv_bad_enums.tflite": "E-FORMAT",
    "sem_unknown_builtin_9999.tflite": "E-FORMAT",
    "sem_external_buffer_offset_oob.tflite": "E-FORMAT",
    "sem_input_3_6GB.tflite": "E-LIMIT",
    "raw_empty.onnx": "E-FORMAT",
    "raw_trunc_tail.onnx": "E-FORMAT",
    "raw_tflite_as_onnx.onnx": "E-FORMAT",
    "raw_protobuf_depth_9000.onnx": "E-LIMIT",
    "sem_external_absolute.onnx": "E-FORMAT",
    "sem_init_too_short.onnx": "E-FORMAT",
    "sem_init_negative_dim.onnx": "E-FORMAT",
    "sem_undefined_input.onnx": "E-GRAPH",
    "sem_type_mismatch.onnx": "E-GRAPH",
    "sem_unknown_domain.onnx": "E-UNSUPPORTED-OPS",
}


def load_apart(paths: Sequence[str]) -> list[dict[str, Any]]:
    """What loading each file does, in one process with little memory."""
    command = [sys.executable, "-m", "tests.formats.load_many", *paths]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment)
    assert done.returncode == 0, f"died with {done.returncode}: {done.stdout[-300:]}{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def outcomes() -> dict[str, dict[str, Any]]:
    corpora.corpus("malformed")
    names = list(corpora.malformed())
    results = load_apart([str(corpora.corpus(f"malformed/{name}")) for name in names])
    return dict(zip(names, results, strict=True))


@pytest.mark.smoke
@corpora.each("name", corpora.malformed())
def test_a_broken_file_loads_or_is_refused_in_time(name: str) -> None:
    outcome, expected = outcomes()[name], corpora.malformed()[name]["expect"]
    assert outcome["s"] < 5
    if expected in ("reject", "resource-limit") and name not in NOT_AT_LOAD:
        assert outcome["result"] != "loads"
        assert name in outcome["text"]
    if expected == "run" or name in NOT_AT_LOAD:
        assert outcome["result"] == "loads"
    assert outcome["result"] == EXPECTED_CODES.get(name, outcome["result"])


def test_a_bad_enumeration_value_names_the_operator() -> None:
    text = outcomes()["sem_conv_bad_enums.tflite"]["text"]
    assert "Padding" in text
    assert "functional_1/activation/Relu" in text


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_never_escapes_as_another_error(seed: int) -> None:
    original = corpora.corpus("models/if_dynamic.tflite").read_bytes()
    rng, refused = np.random.default_rng(seed), 0
    for _ in range(100):
        damaged = np.frombuffer(original, np.uint8).copy()
        places = rng.integers(0, len(damaged), rng.integers(1, 20))
        damaged[places] = rng.integers(0, 256, len(places))
        try:
            load(damaged.tobytes())
        except CircletError as error:
            assert error.code in ("E-FORMAT", "E-GRAPH", "E-LIMIT")
            refused += 1
    assert refused


@pytest.mark.parametrize("name", ["hello_world_int8.tflite", "if_dynamic.tflite"])
def test_every_truncation_is_refused_or_loads(name: str) -> None:
    data = corpora.corpus(f"models/{name}").read_bytes()
    refused = 0
    for length in range(0, len(data), max(1, len(data) // 200)):
        try:
            load(data[:length])
        except CircletError as error:
            assert error.code in ("E-FORMAT", "E-GRAPH", "E-LIMIT")
            refused += 1
    assert refused > 100
