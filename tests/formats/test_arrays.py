from __future__ import annotations

import wave
import zipfile
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import CircletError, FileError, InputError, LimitError
from circlet.formats import arrays
from circlet.formats.arrays import Wanted, random_array, read_array
from circlet.formats.pixels import RANGES
from circlet.formats.sound import read_sound_input

FLOAT = Wanted("x", "float32", (1, 2, 3, 1))
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]
DTYPES += ["complex64"]


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def picture(path: Path, pixels: list[list[int]]) -> Path:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    image.fromarray(np.array(pixels, np.uint8)).save(path)
    return path


PIXELS = [[0, 51, 102], [153, 204, 255]]


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("uint8", [0, 51, 102, 153, 204, 255]), ("int8", [-128, -77, -26, 25, 76, 127])],
)
def test_pixels_fill_the_range_of_8_bits(tmp_path: Path, dtype: str, wanted: list[int]) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    got = read_array(path, Wanted("x", dtype, (1, 2, 3, 1), (0.1,), (3,)))
    assert got.dtype == dtype
    assert got.reshape(-1).tolist() == wanted


def test_float_pixels_lie_where_they_are_asked_to(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    for mapping, least in ((RANGES["-1..1"], -1), (None, 0)):
        got = read_array(path, FLOAT, mapping)
        np.testing.assert_allclose(got.reshape(-1), np.linspace(least, 1, 6), atol=1e-6)


def test_mean_and_std_are_quantised_for_quantised_inputs(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    wanted = Wanted("x", "int8", (1, 2, 3, 1), (0.01,), (-5,))
    got = read_array(path, wanted, RANGES["0..1"])
    assert got.reshape(-1).tolist() == [-5, 15, 35, 55, 75, 95]


def test_mean_and_std_need_a_scale(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    with pytest.raises(InputError, match="mean and std"):
        read_array(path, Wanted("x", "int32", (1, 2, 3, 1)), RANGES["0..1"])


def test_channels_follow_the_network(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    assert read_array(path, Wanted("x", "uint8", (1, 2, 3, 3))).shape == (1, 2, 3, 3)


@pytest.mark.parametrize(
    ("shape", "sides", "wanted"),
    [
        ((1, 1, 1, 3), (1, 2), (1, 448, 640, 3)),  # as the picture, but not above 640
        ((1, 3, 1, 1), (0, 2, 3), (1, 3, 448, 640)),
        ((1, 3, 48, 1), (3,), (1, 3, 48, 64)),  # by the side that the network has
        ((1, 1, 192, 1), (1,), (1, 128, 192, 1)),
        ((1, 224, 224, 3), (0,), (1, 224, 224, 3)),
    ],
)
def test_a_picture_decides_about_sizes_that_are_open(
    tmp_path: Path, shape: tuple[int, ...], sides: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    path = picture(tmp_path / "p.png", [[0] * 1000] * 700)
    assert read_array(path, Wanted("x", "uint8", shape, open=sides)).shape == wanted


def test_an_array_decides_about_sizes_that_are_open(tmp_path: Path) -> None:
    wanted = Wanted("x", "float32", (1, 3, 32, 32), open=(0, 2, 3))
    for shape, fits in (((2, 3, 5, 7), True), ((1, 4, 32, 32), False), ((3, 5, 7), False)):
        np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
        if fits:
            assert read_array(tmp_path / "x.npy", wanted).shape == shape
        else:
            with pytest.raises(InputError, match="does not fit"):
                read_array(tmp_path / "x.npy", wanted)


@pytest.mark.parametrize("shape", [(6,), (1, 2, 3, 2), (2, 2, 3, 1)])
def test_a_picture_does_not_fit_other_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    with pytest.raises(InputError, match="picture cannot have that shape") as caught:
        read_array(path, Wanted("x", "uint8", shape))
    assert ".npy" in caught.value.fix


@pytest.mark.parametrize(("dtype", "wanted"), [("float32", "float32"), ("object", "str")])
def test_an_array_of_another_type_is_told_how_to_be_stored(
    tmp_path: Path, dtype: str, wanted: str
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))  # numpy's own float64
    with pytest.raises(InputError) as caught:
        read_array(tmp_path / "x.npy", Wanted("x", dtype, (2, 3)))
    assert caught.value.fix == f"store array.astype('{wanted}')"


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((2, 3), np.float64), "float64"),
        (np.zeros((3, 2), np.float32), r"\[3, 2\]"),
        (np.zeros((2, 3), ">f4"), ">f4"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(tmp_path: Path, array: np.ndarray, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_array(saved(tmp_path / "x.npy", array), FLOAT)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="allow_pickle"):
        read_array(saved(tmp_path / "x.npy", np.array([{}, {}])), FLOAT)


def test_one_array_of_an_archive_needs_no_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", whatever=np.ones((2, 3), np.float32))
    assert read_array(tmp_path / "x.npz", FLOAT).sum() == 6


def test_several_arrays_of_an_archive_need_the_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(6, np.float32), b=np.ones(6, np.float32))
    with pytest.raises(InputError, match=r"holds \['a', 'b'\]"):
        read_array(tmp_path / "x.npz", FLOAT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_data_fit_and_repeat(dtype: str) -> None:
    wanted = Wanted("x", dtype, (3, 5))
    first, again, other = (random_array(wanted, seed) for seed in (0, 0, 1))
    assert (first.dtype, first.shape) == (np.dtype(dtype), (3, 5))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_picture_that_unpacks_to_much_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", [[0] * 3000] * 1000)
    wanted = Wanted("x", "uint8", (1, 2, 3, 1))
    assert read_array(path, wanted, memory_bytes=24_000_000).shape == (1, 2, 3, 1)
    with pytest.raises(LimitError, match="24000000 bytes"):
        read_array(path, wanted, memory_bytes=23_999_999)


def header(version: int, size: int, text: str) -> bytes:
    """The start of an .npy file, which may lie about its size."""
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(width, "little") + text.encode()


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("data", "error"),
    [(header(1, len(HUGE), HUGE), InputError), (header(2, (1 << 32) - 1, " " * 99), FileError)],
)
def test_headers_are_looked_at_before_elements_are_unpacked(
    tmp_path: Path, data: bytes, error: type[CircletError], packed: bool
) -> None:
    path = tmp_path / ("x.npz" if packed else "x.npy")
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises(error, match="1099511627776" if error is InputError else "a header of"):
        read_array(path, FLOAT)


def test_random_data_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [Wanted("x", dtype, (3, 7)) for dtype in DTYPES]
    whole = [random_array(each, 5) for each in wanted]
    monkeypatch.setattr(arrays, "_PART_ELEMENTS", 4)
    for each, array in zip(wanted, whole, strict=True):
        np.testing.assert_array_equal(random_array(each, 5), array)


def test_a_picture_of_too_many_pixels_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = picture(tmp_path / "p.png", PIXELS)
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 2)
    with pytest.raises(LimitError, match="more pixels than are unpacked"):
        read_array(path, FLOAT)


@pytest.mark.parametrize(("samples", "warned"), [([0] * 40, True), ([], True), ([5] * 40, False)])
def test_a_sound_that_is_silent_is_warned_of(
    tmp_path: Path, samples: list[int], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with wave.open(str(path := tmp_path / "s.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(np.array(samples, "<i2").tobytes())
    read_sound_input(path, Wanted("x", "float32", (1, 100)))
    assert ("silence" in caplog.text) is warned
