"""How `circlet run` maps pictures, says so, and draws what a network answers."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from circlet.formats import load, save
from circlet.formats.associated_files import read_associated_files
from circlet.formats.flatbuffer_writer import Writer
from circlet.formats.pixels import has_signed_bytes
from circlet.formats.schema.metadata import metadata_schema
from circlet.formats.tflite_metadata import read_graph_facts
from circlet.ir import DType, Model, Quantization
from circlet.ops.build import builder
from circlet.sample import Sample
from tests.cli.call import as_json, circlet
from tests.windows import conv2d_attrs

REFERENCE = ("--backend", "reference")


def metadata(mean: float, std: float, labels: str = "") -> bytes:
    """The bytes of TFLite metadata of one input and one output."""
    options = {"table": "NormalizationOptions", "mean": (mean,), "std": (std,)}
    files = ({"name": labels, "type": 2},) if labels else ()
    graph = {
        "input_tensor_metadata": ({"process_units": ({"options": options},)},),
        "output_tensor_metadata": ({"associated_files": files},),
    }
    made = Writer(metadata_schema()).finish("ModelMetadata", {"subgraph_metadata": (graph,)})
    return bytes(made)


def packed(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in files.items():
            archive.writestr(name, contents)
    return made.getvalue()


def model_with(path: Path, blob: bytes, archive: bytes = b"") -> Path:
    """The embedded sample, of floats, with metadata and packed files."""
    model: Model = load(Sample("float").model_path)
    model.metadata["TFLITE_METADATA"] = np.frombuffer(blob, np.uint8)
    save(model, path, "tflite")
    path.write_bytes(path.read_bytes() + archive)
    return path


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "digit.png"
    tones = np.rint(Sample("float").image()[0, :, :, 0] * 99 + 20).astype(np.uint8)
    Image.fromarray(tones).save(path)
    return path


def test_a_guess_is_told_with_the_command_that_maps_otherwise(picture: Path) -> None:
    shown = circlet("run", Sample("float").model_path, "--input", picture).stdout
    assert "pixels become 0..1 (guessed" in shown
    assert f"--input {picture} --pixels=-1..1" in " ".join(shown.split())
    report = as_json("run", Sample("float").model_path, "--input", picture, "--pixels", "0..255")
    assert report["pixels"][0]["certainty"] == "known" and not report["alternative"]


def test_quantisation_implies_the_mapping(picture: Path) -> None:
    (mapping,) = as_json("run", Sample("int8").model_path, "--input", picture)["pixels"]
    assert mapping["certainty"] == "implied" and mapping["range"] == "0..1"


def test_metadata_map_pixels_and_name_classes_unasked(picture: Path, tmp_path: Path) -> None:
    names = "\n".join(f"digit {number}" for number in range(10)).encode()
    archive = packed({"names.txt": names})
    model = model_with(tmp_path / "m.tflite", metadata(10, 20, "names.txt"), archive)
    report = as_json("run", model, "--input", picture)
    assert report["pixels"][0]["mean"] == [10] and report["pixels"][0]["certainty"] == "known"
    (answer,) = report["answers"]
    assert answer["top"][0]["label"] == f"digit {answer['top'][0]['index']}"
    assert "names.txt" in answer["labels"]
    asked = as_json("run", model, "--input", picture, "--mean", 10, "--std", 20)
    assert asked["answers"][0]["top"] == answer["top"]


def test_an_artifact_knows_what_its_model_knew(picture: Path, tmp_path: Path) -> None:
    archive = packed({"names.txt": b"\n".join([b"x"] * 10)})
    model = model_with(tmp_path / "m.tflite", metadata(10, 20, "names.txt"), archive)
    assert circlet("compile", model, "-o", tmp_path / "m.circlet").exit_code == 0
    report = as_json("run", tmp_path / "m.circlet", "--input", picture)
    assert report["pixels"][0]["mean"] == [10]
    assert report["answers"][0]["top"][0]["label"] == "x"


@pytest.mark.parametrize(
    ("blob", "archive", "warning"),
    [
        (b"nothing", b"", "metadata cannot be read"),
        (metadata(1, 2)[:60], b"", "metadata cannot be read"),
        (metadata(1, 2, "absent.txt"), b"", "'absent.txt' is not packed"),
        (metadata(1, 2, "l"), packed({"l": b"\xff\xfe"}), "not UTF-8"),
        (metadata(1, 2, "l"), packed({"l": bytes(5 << 20)}), "cannot be read"),
        (metadata(1, 2, "l"), packed({"l": b"a\nb\nc"}), "3 labels do not fit 10 classes"),
    ],
    ids=["no table", "cut off", "no file", "no text", "too large", "too few labels"],
)
def test_hostile_metadata_are_warned_of_and_the_network_runs(
    blob: bytes, archive: bytes, warning: str, picture: Path, tmp_path: Path
) -> None:
    report = as_json("run", model_with(tmp_path / "m.tflite", blob, archive), "--input", picture)
    assert any(warning in told for told in report["warnings"])
    assert len(report["answers"][0]["top"]) == 5


def test_a_range_that_is_said_and_known_is_one_range(picture: Path, tmp_path: Path) -> None:
    """Bytes of the scale 1/128 are -1..1 as they are, by whatever name they come to be so."""
    model = load(Sample("int8").model_path)
    (image,) = model.main.inputs
    image.quant = Quantization(np.array([1 / 128], np.float32), np.array([0]))
    save(model, tmp_path / "m.circle")
    arguments = ("run", tmp_path / "m.circle", *REFERENCE, "--input", picture)
    implied, said = as_json(*arguments), as_json(*arguments, "--pixels=-1..1")
    assert implied["pixels"][0]["range"] == said["pixels"][0]["range"] == "-1..1"
    assert implied["pixels"][0]["mean"] == said["pixels"][0]["mean"]
    assert implied["answers"] == said["answers"]


@pytest.mark.parametrize("mean", [float("nan"), float("inf")])
def test_a_mean_that_is_no_number_says_nothing(mean: float) -> None:
    facts = read_graph_facts(np.frombuffer(metadata(mean, 1), np.uint8), {})
    assert facts.inputs[0].mean == () and not facts.warnings


def test_damaged_archives_give_no_files_and_never_an_error() -> None:
    sound = packed({"labels.txt": b"a\nb"})
    assert read_associated_files(memoryview(b"model" + sound))[0] == {"labels.txt": b"a\nb"}
    for index in range(len(sound)):
        broken = bytearray(b"model" + sound)
        broken[5 + index] ^= 0xFF
        files, problem = read_associated_files(memoryview(bytes(broken)))
        assert isinstance(files, dict) and isinstance(problem, str)


def test_ink_on_paper_is_read_as_what_digit_networks_know(tmp_path: Path) -> None:
    dark = np.rint(Sample("float").image()[0, :, :, 0] * 255).astype(np.uint8)
    Image.fromarray(dark).save(tmp_path / "dark.png")
    Image.fromarray(255 - dark).save(tmp_path / "paper.png")
    model = Sample("float").model_path
    plain, paper = (
        as_json("run", model, "--input", tmp_path / n) for n in ("dark.png", "paper.png")
    )
    assert paper["pixels"][0]["is_inverted"] and not plain["pixels"][0]["is_inverted"]
    assert plain["answers"] == paper["answers"]
    kept = as_json("run", model, "--input", tmp_path / "paper.png", "--no-invert")
    assert not kept["pixels"][0]["is_inverted"] and kept["answers"] != paper["answers"]


def test_grey_tones_that_wrap_around_are_signed_bytes(tmp_path: Path) -> None:
    y, x = np.mgrid[:64, :64]
    tones = (128 + 60 * np.sin(x / 9) * np.cos(y / 7) + 10).astype(np.uint8)
    Image.fromarray(tones).save(tmp_path / "plain.png")
    Image.fromarray(tones ^ 0x80).save(tmp_path / "signed.png")
    writing = np.where(tones > 150, 240, 20).astype(np.uint8) + (tones % 8)
    assert not has_signed_bytes(writing)
    model = Sample("int8").model_path
    plain, signed = (
        as_json("run", model, "--input", tmp_path / name) for name in ("plain.png", "signed.png")
    )
    assert signed["pixels"][0]["is_signed"] and not plain["pixels"][0]["is_signed"]
    assert plain["answers"] == signed["answers"]


def test_the_answer_is_drawn_over_the_picture(picture: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.png"
    report = as_json("run", Sample("int8").model_path, "--input", picture, "--draw", drawn)
    assert report["drawing"] == str(drawn)
    with Image.open(drawn) as shown:
        assert shown.size == (320, 320)
        colours = shown.convert("RGB").getcolors(1 << 16)
    assert colours and any(colour == (255, 255, 255) for _, colour in colours)


@pytest.mark.parametrize(
    ("name", "given", "code"), [("x.txt", True, "E-INPUT"), ("x.png", False, "E-INPUT")]
)
def test_what_cannot_be_drawn_is_refused(
    name: str, given: bool, code: str, picture: Path, tmp_path: Path
) -> None:
    inputs = ("--input", picture) if given else ()
    arguments = ("run", Sample("int8").model_path, *inputs, "--draw", tmp_path / name)
    assert as_json(*arguments, code=1)["error"]["code"] == code
    assert not (tmp_path / name).exists()


def test_nothing_is_written_where_there_is_nothing_to_draw(tmp_path: Path) -> None:
    b, drawn = builder(), tmp_path / "drawn.png"
    picture = b.input("x", DType.FLOAT32, (1, 8, 8, 3))
    weights = b.constant("w", np.zeros((8, 1, 1, 3), np.float32))
    output = b.op("CONV_2D", [picture, weights, None], conv2d_attrs("SAME"), name="y")
    save(b.output(output).model(), tmp_path / "features.circle")
    Image.new("RGB", (64, 32)).save(tmp_path / "in.png")
    arguments = ("--input", tmp_path / "in.png", "--draw", drawn)
    report = as_json("run", tmp_path / "features.circle", *REFERENCE, *arguments)
    assert report["drawing"] == "" and not drawn.exists()
    assert str(drawn) in report["warnings"][-1]


def test_the_picture_decides_about_sizes_that_the_file_leaves_open(tmp_path: Path) -> None:
    model, drawn = open_network(tmp_path / "open.circle"), tmp_path / "drawn.png"
    Image.new("RGB", (96, 64)).save(tmp_path / "in.png")
    arguments = ("run", model, *REFERENCE, "--input", tmp_path / "in.png")
    report = as_json(*arguments, "--draw", drawn)
    assert report["answers"][0]["shape"] == [1, 64, 96, 3]
    assert "1x64x96x3" in report["inputs"][0] and "--shape x=" in report["inputs"][0]
    with Image.open(drawn) as shown:
        assert shown.size == (96, 64)
    said = as_json(*arguments, "--shape", "x=1x40x50x3")
    assert said["answers"][0]["shape"] == [1, 40, 50, 3]
    assert said["inputs"] == [str(tmp_path / "in.png")]
    assert said["alternative"].endswith("--shape x=1x40x50x3 --pixels=-1..1")
    shown_text = circlet(*arguments)
    assert shown_text.exit_code == 0 and "made ready for these sizes in" in shown_text.stdout


def test_artifacts_keep_their_sizes_whatever_the_picture_has(tmp_path: Path) -> None:
    model, artifact = open_network(tmp_path / "open.circle"), tmp_path / "open.circlet"
    Image.new("RGB", (96, 64)).save(tmp_path / "in.png")
    as_json("compile", model, "-o", artifact, "--shape", "x=1,40,50,3", *REFERENCE)
    report = as_json("run", artifact, "--input", tmp_path / "in.png")
    assert report["answers"][0]["shape"] == [1, 40, 50, 3]
    assert report["inputs"] == [str(tmp_path / "in.png")]


@pytest.mark.parametrize("sizes", ["", "1x40x50x3"])
def test_profiles_and_reports_are_of_the_sizes_that_the_picture_has(
    sizes: str, tmp_path: Path
) -> None:
    model, page = open_network(tmp_path / "open.circle"), tmp_path / "page.html"
    Image.new("RGB", (96, 64)).save(tmp_path / "in.png")
    given = ("--input", tmp_path / "in.png", "--runs", 2)
    said = ("--shape", f"x={sizes}") if sizes else ()
    profile = as_json("profile", model, *given, *said, "--tensors", "y", "--no-roofline")
    assert profile["tensors"][0]["shape"] == ([1, 40, 50, 3] if sizes else [1, 64, 96, 3])

    if not sizes:
        report = as_json("report", model, *given, "-o", page)
        assert "1x64x96x3" in json.dumps(report).replace(", ", "x") and page.exists()


def open_network(path: Path) -> Path:
    """A network that takes pictures of any size, and gives such."""
    b = builder()
    model = b.output(b.op("ABS", [b.input("x", DType.FLOAT32, (1, 1, 1, 3))], name="y")).model()
    for tensor in (*model.main.inputs, *model.main.outputs):
        tensor.shape, tensor.default_shape = (1, None, None, 3), (1, 1, 1, 3)
    save(model, path)
    return path


@pytest.mark.parametrize("given", ["1,x", "nan", "", "inf"])
def test_numbers_that_are_none_are_usage_errors(given: str, picture: Path) -> None:
    result = circlet("run", Sample("int8").model_path, "--input", picture, f"--mean={given}")
    assert result.exit_code == 2


def test_the_same_twice_is_refused(picture: Path) -> None:
    arguments = ("run", Sample("int8").model_path, "--input", picture, "--pixels", "0..1")
    assert "twice" in as_json(*arguments, "--mean", 3, code=1)["error"]["what"]
