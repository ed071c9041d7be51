from __future__ import annotations

import errno
import gc
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from circlet.artifact.file import (
    PAGE,
    Artifact,
    PartitionCode,
    TargetCode,
    is_artifact,
    open_artifact,
)
from circlet.artifact.writer import artifact_bytes
from circlet.backends.cpu.executable import Binding, Executable
from circlet.backends.cpu.loader import load_runtime
from circlet.errors import ArtifactError, FileError, TargetError
from circlet.regular_files import write_file
from circlet.target.targets import Target, native_target, parse_target
from tests.backends.cpu import native

WEIGHTS = np.arange(5000, dtype=np.int32).tobytes()


def code(target: Target, runtime: bytes = b"runtime") -> TargetCode:
    sections = {"plan": (b"plan" * 30,), "units": (b"unit 0", b"unit 1")}
    partition = PartitionCode("some", WEIGHTS, sections)
    return TargetCode(str(target), (partition, partition), {"some": runtime})


def small() -> bytes:
    return artifact_bytes({"model": "\u00e9"}, [code(native_target())])


@pytest.mark.smoke
def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "model.circlet"
    targets = [code(native_target()), code(parse_target("aarch64+i8mm"), b"other")]
    write_file(path, artifact_bytes({"model": "x", "shapes": [[1, None]]}, targets))
    artifact = open_artifact(path)
    assert artifact.metadata == {"model": "x", "shapes": [[1, None]]}
    assert [str(target) for target in artifact.targets] == [target.target for target in targets]
    read = artifact.code(1)
    assert bytes(read.shared["some"]) == b"other"
    assert [bytes(unit) for unit in read.partitions[1].sections["units"]] == [b"unit 0", b"unit 1"]
    assert bytes(read.partitions[0].constants) == WEIGHTS
    assert read.partitions[1].backend == "some" and not read.partitions[1].section("none")
    artifact.verify_full()


def test_the_file_is_private_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.circlet"
    write_file(path, artifact_bytes({}, []))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_equal_sections_are_stored_once() -> None:
    one = artifact_bytes({}, [code(native_target())])
    two = artifact_bytes({}, [code(native_target()), code(parse_target("generic"))])
    assert len(two) < len(one) + 2 * PAGE


@pytest.mark.parametrize("from_file", [True, False])
def test_constants_start_on_pages(from_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(small())
    part = open_artifact(path if from_file else small()).select().partitions[0]
    constants = np.frombuffer(part.constants, np.uint8)
    plan = np.frombuffer(part.section("plan"), np.uint8)
    assert constants.__array_interface__["data"][0] % PAGE == 0
    assert plan.__array_interface__["data"][0] % 64 == 0


@pytest.mark.smoke
def test_a_plan_runs_from_the_mapped_file(tmp_path: Path) -> None:
    sections = {"plan": (native.chain_plan(3, 8),), "units": (native.unit_image(),)}
    partition = PartitionCode("cpu", b"", sections)
    made = TargetCode(str(native_target()), (partition,), {"cpu": native.runtime_image()})
    write_file(tmp_path / "a", artifact_bytes({}, [made]))
    read = open_artifact(tmp_path / "a").select()
    (tmp_path / "a").unlink()
    part = read.partitions[0]
    runtime = load_runtime(read.shared["cpu"])
    executable = Executable(runtime, part.section("plan"), part.constants, part.sections["units"])
    del read, part
    gc.collect()
    source, target = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    Binding(executable, [source], [target]).run()
    assert target.tolist() == (source + 6).tolist()


def test_no_target_that_runs_here_names_what_is_missing() -> None:
    other = parse_target("riscv64" if native_target().arch != "riscv64" else "aarch64")
    with pytest.raises(TargetError, match=other.arch):
        open_artifact(artifact_bytes({}, [code(other)])).select()


def _touch_everything(artifact: Artifact) -> None:
    artifact.verify_full()
    for index in range(len(artifact.targets)):
        artifact.code(index)


def test_every_damaged_byte_that_matters_is_noticed() -> None:
    data = small()
    sections, text_bytes = int.from_bytes(data[12:16], "little"), data[16] | data[17] << 8
    front = range(64, 64 + 48 * sections + text_bytes, 7)
    spans = [(start, size) for start, size, _ in open_artifact(data)._sections]
    inside = {place for start, size in spans for place in range(start, start + size)}
    for place in [*range(64), *front, *sorted(inside)[::997]]:
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        with pytest.raises(ArtifactError):
            _touch_everything(open_artifact(bytes(damaged)))


@pytest.mark.parametrize("length", [0, 1, 63, 64, 200, 4096, -1])
def test_a_truncated_file_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(small()[:length])
    with pytest.raises(ArtifactError):
        open_artifact(path)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(1000))
    with pytest.raises(ArtifactError):
        open_artifact(path)
    assert not is_artifact(path.read_bytes())
    assert is_artifact(small())


def test_a_newer_version_says_so() -> None:
    data = bytearray(small())
    data[8] += 1
    with pytest.raises(ArtifactError, match="version 4"):
        open_artifact(bytes(data))


@pytest.mark.parametrize(
    "targets",
    [
        [{}],
        [{"target": "x86_64"}],
        [{"target": "x86_64", "needs": []}],
        [{"target": "x86_64", "needs": 7}],
        7,
        [
            {
                "target": "x86_64",
                "needs": ["x86_64"],
                "runtime": 99,
                "partitions": [],
                "metadata": {},
            }
        ],
        [
            {
                "target": "x86_64",
                "needs": ["x86_64"],
                "runtime": 0,
                "partitions": [{}],
                "metadata": {},
            }
        ],
        [
            {
                "target": "x86_64",
                "needs": ["x86_64"],
                "runtime": -1,
                "partitions": [],
                "metadata": {},
            }
        ],
        [
            {
                "target": "x86_64",
                "needs": ["x86_64"],
                "runtime": "0",
                "partitions": [],
                "metadata": {},
            }
        ],
    ],
)
def test_a_wrong_description_is_refused(targets: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    document = {"metadata": {}, "targets": targets}
    text = json.dumps(document)
    monkeypatch.setattr(json, "dumps", lambda *_, **__: text)
    data = artifact_bytes({}, [code(native_target())])
    with pytest.raises(ArtifactError):
        _touch_everything(open_artifact(data))


@pytest.mark.parametrize("text", ["", "{", "{} {}", "[1,]", '{"metadata":tru}', "[" * 100_000])
def test_a_description_that_is_no_json_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.setattr(json, "dumps", lambda *_, **__: text)
    data = artifact_bytes({}, [code(native_target())])
    with pytest.raises(ArtifactError, match="not JSON"):
        open_artifact(data)


def test_a_missing_file_and_folder_are_file_errors(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        open_artifact(tmp_path / "absent")
    with pytest.raises(FileError):
        write_file(tmp_path / "no" / "folder", artifact_bytes({}, []))


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_file(path, artifact_bytes({"old": 1}, []))

    def full(descriptor: int, mode: str) -> object:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(FileError, match="No space"):
        write_file(path, artifact_bytes({"new": 1}, []))
    assert open_artifact(path).metadata == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]
