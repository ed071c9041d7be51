"""ONE's settings mean here what they mean to ONE's runtime."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from circlet import Session
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.config import heeds_one, variables
from circlet.errors import InputError
from circlet.ir import Model, Origin
from circlet.ops.opdef import all_records
from circlet.options import Options
from circlet.placement.by_source import chosen_by_source, words_of_sources
from circlet.placement.one_operations import KINDS, MADE_BY_ONE
from circlet.placement.one_options import OneConfig, is_setting, one_config, read_one_config
from circlet.runtime.one_options import with_one_settings
from circlet.sample import Sample
from tests.cli.call import as_json, circlet, in_shell
from tests.placement.test_rule import Only, graph

KNOWN = ("cpu", "reference", "fast")
# Of the file's operators: CONV_2D, DEPTHWISE_CONV_2D, CONV_2D, CONV_2D, RESHAPE,
# FULLY_CONNECTED, SOFTMAX.
MODEL = str(Sample().model_path)
# ONE's Operations.lst of 2021 and what later versions add.
OPERATIONS = [
    "AddN",
    "ArgMinMax",
    "BatchMatMul",
    "BatchToSpaceND",
    "BCQFullyConnected",
    "BCQGather",
    "BinaryArithmetic",
    "BroadcastTo",
    "Comparison",
    "Concat",
    "Conv2D",
    "ConvertFp16ToFp32",
    "ConvertFp32ToFp16",
    "Custom",
    "DepthToSpace",
    "DepthwiseConv2D",
    "Einsum",
    "ElementwiseActivation",
    "ElementwiseBinary",
    "ElementwiseUnary",
    "EmbeddingLookup",
    "ExpandDims",
    "Fill",
    "FullyConnected",
    "FusedBatchNorm",
    "Gather",
    "HashtableLookup",
    "If",
    "InstanceNorm",
    "L2Normalization",
    "LocalResponseNormalization",
    "LogSoftmax",
    "LSTM",
    "MatrixBandPart",
    "OneHot",
    "Pack",
    "Pad",
    "Permute",
    "Pool2D",
    "Pow",
    "PReLU",
    "Range",
    "Rank",
    "Reduce",
    "Reshape",
    "ResizeBilinear",
    "ResizeNearestNeighbor",
    "Reverse",
    "RNN",
    "Select",
    "Shape",
    "Slice",
    "Softmax",
    "SpaceToBatchND",
    "SpaceToDepth",
    "Split",
    "SplitV",
    "SquaredDifference",
    "Squeeze",
    "StatelessRandomUniform",
    "StridedSlice",
    "Tile",
    "TopKV2",
    "Transpose",
    "TransposeConv",
    "Unpack",
    "While",
    "Bulk",
    "DetectionPostProcess",
    "DynamicUpdateSlice",
    "Loss",
    "RmsNorm",
    "RoPE",
    "Call",
    "RunModel",
    "Attention",
]


def placed(settings: dict[str, str]) -> dict[str, str]:
    """Where the operators of the sample go; nothing is compiled."""
    options = with_one_settings(Options(), settings)
    table = plan(Template.read(MODEL, options), options).placed
    return {row.op.name: row.backend for row in table}


def test_every_operation_of_one_stands_for_kinds_that_there_are() -> None:
    assert {*OPERATIONS} == KINDS.keys() | MADE_BY_ONE
    kinds = {kind for row in KINDS.values() for kind in row if not kind.startswith("CUSTOM")}
    assert kinds <= {record.kind for record in all_records()}
    assert len(kinds) == sum(
        not kind.startswith("CUSTOM") for row in KINDS.values() for kind in row
    )


def test_position_goes_before_kind_and_kind_before_all() -> None:
    settings = {
        "BACKENDS": "cpu;reference",
        "OP_BACKEND_ALLOPS": "reference",
        "OP_BACKEND_Conv2D": "cpu",
        "OP_BACKEND_MAP": "0=reference;6=cpu",
    }
    assert placed(settings) == {
        "conv": "reference",
        "depthwise": "reference",
        "pointwise": "cpu",
        "features": "cpu",
        "flatten": "reference",
        "classifier": "reference",
        "probabilities": "cpu",
    }


def test_what_nothing_is_said_of_goes_to_the_first_backend() -> None:
    found = placed({"BACKENDS": "reference;cpu", "OP_BACKEND_Softmax": "cpu"})
    assert found.pop("probabilities") == "cpu"
    assert {*found.values()} == {"reference"}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, OneConfig()),
        ({"BACKENDS": "", "OP_BACKEND_ALLOPS": " "}, OneConfig()),
        ({"BACKENDS": "fast"}, OneConfig(("fast", "reference"))),
        ({"BACKENDS": "acl_cl;reference; fast;"}, OneConfig(("reference", "fast"))),
        ({"OP_BACKEND_MAP": "0=cpu; 12 = fast"}, OneConfig(rules=(("0", "cpu"), ("12", "fast")))),
        ({"OP_BACKEND_MAP": "007=cpu"}, OneConfig(rules=(("7", "cpu"),))),
        (
            {"OP_BACKEND_MAP": "x=cpu;1;2=acl_cl;=cpu;-1=cpu;3=cpu"},
            OneConfig(rules=(("3", "cpu"),)),
        ),
        ({"OP_BACKEND_TopKV2": "fast"}, OneConfig(rules=(("TOPK_V2", "fast"),))),
        ({"OP_BACKEND_TopKV2": "acl_neon"}, OneConfig()),
        ({"OP_BACKEND_Nonsense": "cpu", "OP_BACKEND_Permute": "cpu"}, OneConfig()),
        ({"OP_BACKEND_ALLOPS": "fast"}, OneConfig(rules=(("*", "fast"),))),
        ({"BACKENDS": "cpu", "OP_BACKEND_ALLOPS": "fast"}, OneConfig(("cpu", "reference"))),
        ({"EXECUTOR": "Parallel"}, OneConfig(executor="parallel")),
        ({"USE_SCHEDULER": "1", "PROFILING_MODE": "0"}, OneConfig(scheduling="known")),
        ({"USE_SCHEDULER": "false", "PROFILING_MODE": "NO"}, OneConfig()),
        ({"USE_SCHEDULER": "y", "PROFILING_MODE": "1"}, OneConfig(scheduling="measure")),
    ],
)
def test_settings_become_rules(settings: dict[str, str], wanted: OneConfig) -> None:
    assert one_config(settings, KNOWN) == wanted


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("BACKENDS", "cpu;acl_cl"),
        ("OP_BACKEND_MAP", "x=cpu"),
        ("OP_BACKEND_MAP", "0=acl_cl"),
        ("OP_BACKEND_Conv2D", "acl_cl"),
        ("OP_BACKEND_Nonsense", "cpu"),
        ("OP_BACKEND_ALLOPS", "acl_cl"),
    ],
)
def test_what_means_nothing_is_logged_or_strictly_an_error(
    key: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        one_config({key: text}, KNOWN)
    assert len(caplog.records) == 1 and key in caplog.text
    with pytest.raises(InputError, match=key):
        one_config({key: text}, KNOWN, strict=True)


@pytest.mark.parametrize(
    "settings",
    [{"BACKENDS": "acl_cl;ruy"}, {"EXECUTOR": "linear"}, {"PROFILING_MODE": "1"}],
)
def test_what_one_would_not_start_with_is_an_error(settings: dict[str, str]) -> None:
    with pytest.raises(InputError):
        one_config(settings, KNOWN)


def test_a_position_that_the_file_lacks_is_logged_or_strictly_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"OP_BACKEND_MAP": "6=reference;7=reference"}
    with caplog.at_level(logging.WARNING):
        assert placed(settings)["probabilities"] == "reference"
    assert "7=reference" in caplog.text
    with pytest.raises(InputError, match="7=reference"):
        Session(MODEL, one_config={**settings, "BACKENDS": "cpu;reference"}, strict=True)


def test_a_file_of_settings_is_read_as_one_reads_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "config.cfg"
    path.write_text("# all\nBACKENDS = cpu;x # some\n\nno setting\nEXECUTOR=\nA=1=2\nA=3\n#B=1\n")
    assert read_one_config(path) == {"BACKENDS": "cpu;x", "EXECUTOR": "", "A": "3"}
    assert "line 4" in caplog.text
    path.write_bytes(b"A=\xff")
    with pytest.raises(InputError) as caught:
        read_one_config(path)
    assert caught.value.where == str(path)


def test_variables_are_heeded_only_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"BACKENDS": "cpu", "OP_BACKEND_MAP": "0=cpu", "EXECUTOR": "", "HOME": "/"}
    assert variables(is_setting, names) == {"BACKENDS": "cpu", "OP_BACKEND_MAP": "0=cpu"}
    assert [heeds_one({"CIRCLET_ONE_ENV": text}) for text in ("", "0", "1")] == [False, False, True]
    for name in ("BACKENDS", "OP_BACKEND_ALLOPS"):
        monkeypatch.setenv(name, "reference")
    assert with_one_settings(Options()) == Options()
    monkeypatch.setenv("CIRCLET_ONE_ENV", "1")
    assert with_one_settings(Options()).backends == ("reference",)
    with pytest.raises(InputError, match="CIRCLET_ONE_ENV"):
        heeds_one({"CIRCLET_ONE_ENV": "yes"})


def test_the_environment_goes_before_a_file_and_the_caller_before_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CIRCLET_ONE_ENV", "1")
    monkeypatch.setenv("OP_BACKEND_Softmax", "reference")
    monkeypatch.setenv("BACKENDS", "reference")
    asked = {"OP_BACKEND_Softmax": "cpu", "OP_BACKEND_MAP": "0=reference", "BACKENDS": "cpu"}
    found = with_one_settings(Options(), asked)
    assert found.backends == ("reference",)
    assert found.backend_of_source == (("0", "reference"), ("SOFTMAX", "reference"))
    chosen = Options(backends=("cpu",), executor="linear")
    assert with_one_settings(chosen, {**asked, "EXECUTOR": "Parallel"}) == chosen._replace(
        backend_of_source=found.backend_of_source
    )
    assert with_one_settings(Options(), {"EXECUTOR": "Dataflow"}).executor == "dataflow"
    session = Session(MODEL, backend_of={"SOFTMAX": "cpu"})
    assert session.placement[-1]["backend"] == "cpu"
    assert {row["backend"] for row in session.placement[:-1]} == {"reference"}


def test_an_operator_joined_of_several_goes_by_the_first_rule_about_any() -> None:
    network = graph("RELU", "TANH", "RELU")
    words = words_of_sources(Model([network]))
    relu, tanh, _ = network.ops
    tanh.origin = Origin.union([relu.origin, tanh.origin])
    for rules, wanted in (
        ((("0", "fast"), ("TANH", "slow")), ["fast", "fast", None]),
        ((("TANH", "slow"), ("0", "fast")), ["fast", "slow", None]),
        ((("RELU", "fast"), ("*", "slow")), ["fast", "fast", "fast"]),
        ((("PRELU", "fast"), ("2", "slow")), [None, None, "slow"]),
    ):
        options = Options(backend_of_source=rules)
        found = chosen_by_source(network, options, words, [Only("fast"), Only("slow")])
        names = [found[op].name if op in found else None for op in network.ops]
        assert names == wanted


def test_the_command_takes_a_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "config.cfg"
    path.write_text("OP_BACKEND_FullyConnected=reference\n")
    found = as_json("place", MODEL, "--one-config", path)["operators"]
    assert [row["source"] for row in found if row["backend"] == "reference"] == ["classifier"]
    done = circlet("place", MODEL, "--strict", "--one-config", tmp_path / "none.cfg")
    assert done.exit_code == 1 and "E-FILE" in done.output
    shell = in_shell("place", MODEL, "--json", CIRCLET_ONE_ENV="1", BACKENDS="reference")
    assert '"backend": "cpu"' not in shell.stdout and '"reference"' in shell.stdout
