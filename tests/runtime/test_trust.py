"""Who decides what is code: the caller, by a call of its own, by digest and by key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from circlet import Interpreter, Session, load_artifact
from circlet.artifact.file import open_artifact
from circlet.artifact.signing import new_key, sign
from circlet.backends.cpu import loader
from circlet.compiler.compile import compile_model
from circlet.errors import ArtifactError, CircletError, FileError, InputError, SignatureError
from circlet.limits import Limits
from circlet.options import Options
from tests.cli.call import as_json, circlet
from tests.runtime import networks

X = np.linspace(-1, 1, 6, dtype=np.float32)


@pytest.fixture
def artifact() -> bytes:
    return compile_model(networks.relu(), Options())


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading code, which may run its constructors, fails the test."""

    def refuse(*_: object) -> None:
        raise AssertionError("code was loaded")

    monkeypatch.setattr(loader, "_open_image", refuse)
    monkeypatch.setattr(loader, "_runtimes", {})


OPENINGS: dict[str, Callable[[Path], object]] = {
    "path": Session,
    "bytes": lambda path: Session(path.read_bytes()),
    "no cache": lambda path: Session(path, cache=False),
    "limits": lambda path: Session(path, limits=Limits(file_bytes=1 << 20), strict=True),
    "interpreter": lambda path: Interpreter(str(path)),
    "interpreter of bytes": lambda path: Interpreter(model_content=path.read_bytes()),
}


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("name", ["photo_classifier.tflite", "x.circlet", "x"])
@pytest.mark.parametrize("how", OPENINGS)
def test_a_model_is_never_code(how: str, name: str, artifact: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(artifact)
    with pytest.raises(CircletError, match="load_artifact") as caught:
        OPENINGS[how](path)
    assert caught.value.code == "E-FORMAT"


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("command", ["run", "compile", "verify", "dump", "convert"])
def test_no_command_takes_a_model_for_code(command: str, artifact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "photo_classifier.tflite"
    path.write_bytes(artifact)
    more = {"compile": ("-o", tmp_path / "o"), "convert": (tmp_path / "o.circle",)}
    done = circlet(command, path, *more.get(command, ()))
    assert done.exit_code == 1
    assert "E-FORMAT" in done.stderr and "--artifact" in done.stderr


def test_a_command_executes_what_is_named_an_artifact(artifact: bytes, tmp_path: Path) -> None:
    for name, options in (("m.circlet", ()), ("m.tflite", ("--artifact",))):
        path = tmp_path / name
        path.write_bytes(artifact)
        assert as_json("run", path, *options)["native_ops"] == 1


def test_a_model_is_no_artifact(tmp_path: Path) -> None:
    path = tmp_path / "m.circlet"
    path.write_bytes(networks.relu())
    with pytest.raises(ArtifactError):
        load_artifact(path)
    assert as_json("run", path, code=1)["error"]["code"] == "E-ARTIFACT"


def test_the_digest_that_is_asked_for_is_accepted(artifact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.circlet"
    path.write_bytes(artifact)
    digest = as_json("inspect", path)["digest"]
    session = load_artifact(path, digest=digest.upper())
    np.testing.assert_array_equal(session.run([X])["y"], np.maximum(X, 0))
    assert circlet("run", path, "--digest", digest).exit_code == 0


@pytest.mark.usefixtures("nothing_loads")
def test_another_digest_is_refused_before_anything_runs(artifact: bytes, tmp_path: Path) -> None:
    other = open_artifact(compile_model(networks.relu(7), Options())).digest
    with pytest.raises(SignatureError, match="not the one"):
        load_artifact(artifact, digest=other)
    path = tmp_path / "m.circlet"
    path.write_bytes(artifact)
    error = as_json("run", path, "--digest", other, code=1)["error"]
    assert error["code"] == "E-SIGNATURE"


@pytest.fixture
def signed(artifact: bytes, tmp_path: Path) -> Path:
    """An artifact beside its signature; the keys are "key" and "key.pub" there."""
    path = tmp_path / "m.circlet"
    path.write_bytes(artifact)
    assert circlet("keygen", tmp_path / "key").exit_code == 0
    assert circlet("sign", path, "--key", tmp_path / "key").exit_code == 0
    return path


def test_what_an_accepted_key_signed_is_run(signed: Path, tmp_path: Path) -> None:
    new_key(tmp_path / "other")
    keys = [tmp_path / "other.pub", tmp_path / "key.pub"]
    session = load_artifact(signed, public_keys=keys)
    np.testing.assert_array_equal(session.run([X])["y"], np.maximum(X, 0))
    text = Path(f"{signed}.sig").read_text()
    assert load_artifact(signed.read_bytes(), public_keys=keys, signature=text).inputs
    accept = [part for key in keys for part in ("--public-key", key)]
    assert circlet("run", signed, *accept).exit_code == 0
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("nothing_loads")
@pytest.mark.parametrize("damage", ["other key", "no signature", "other artifact", "no text"])
def test_what_no_accepted_key_signed_is_not_loaded(
    damage: str, signed: Path, tmp_path: Path
) -> None:
    signature, key = Path(f"{signed}.sig"), tmp_path / "key.pub"
    if damage == "other key":
        new_key(tmp_path / "other")
        key = tmp_path / "other.pub"
    elif damage == "no signature":
        signature.unlink()
    elif damage == "other artifact":
        signed.write_bytes(compile_model(networks.relu(7), Options()))
    else:
        signature.write_text("\0")
    with pytest.raises(SignatureError):
        load_artifact(signed, public_keys=[key])
    error = as_json("run", signed, "--public-key", key, code=1)["error"]
    assert error["code"] == "E-SIGNATURE"


@pytest.mark.parametrize("name", ["key", "absent", "m.circlet"])
def test_a_key_of_another_kind_is_said_to_be_one(name: str, signed: Path, tmp_path: Path) -> None:
    with pytest.raises((InputError, FileError), match="key"):
        load_artifact(signed, public_keys=[tmp_path / name])


def test_a_key_is_never_overwritten_and_damage_never_signed(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there already"):
        new_key(tmp_path / "key")
    data = bytearray(signed.read_bytes())
    data[-1] ^= 1
    with pytest.raises(ArtifactError):
        sign(open_artifact(bytes(data)), tmp_path / "key")


def test_models_have_no_digests_to_ask_for(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(networks.relu())
    assert as_json("run", path, "--digest", "00", code=1)["error"]["code"] == "E-INPUT"
