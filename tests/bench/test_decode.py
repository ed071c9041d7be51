"""Decoders that are made to be measured: what they hold, and what is said of a step."""

from __future__ import annotations

import pytest

from bench.decode import main
from bench.decoder import feeds, model_bytes, tiny

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")


@pytest.mark.parametrize("bits", [4, 8, 32])
def test_the_bytes_of_a_step_are_those_of_the_file(bits: int) -> None:
    decoder = tiny(bits=bits, zeros=True)
    stored = onnx.ModelProto.FromString(model_bytes(decoder)).graph.initializer
    kinds = ("weight", "scales", "zeros")
    assert decoder.weight_bytes == sum(
        onnx.numpy_helper.to_array(t).nbytes for t in stored if t.name.split(".")[-1] in kinds
    )


def test_caches_hold_what_came_before() -> None:
    decoder = tiny()
    given = feeds(decoder, 2, 5, 9)
    assert given["attention_mask"].sum() == 7
    keys = given["past_key_values.1.key"]
    assert keys[:, :, :5].all() and not keys[:, :, 5:].any()
    assert keys[:, :, :5].nbytes * 4 == decoder.cache_bytes(5)


def test_forms_that_do_not_exist_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--forms", "int4,int5"])
    assert "int5" in capsys.readouterr().err


@pytest.mark.slow
def test_a_step_is_set_beside_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--hidden", "64", "--layers", "1", "--held", "3", "--length", "8"]
    wanted = ["--forms", "int4", "--rows", "1,2", "--threads", "1", "--engines", "circlet"]
    main([*wanted, *sizes, "--rounds", "2", "--loaded"])
    *lines, memory = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["int4", n, "rows"] for n in "12"]
    assert all("GB/s" in line and "words/s" in line for line in lines)
    assert memory.startswith("1 thread reads")
