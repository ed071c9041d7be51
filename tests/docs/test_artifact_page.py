"""The page on artifacts: a C program runs a plan without Python, and the layout is as said."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from circlet import load_artifact
from circlet.compiler.compile import compile_model
from circlet.options import Options
from circlet.sample import Sample
from tests import child
from tests.docs.how_to import ROOT, blocks

PAGE = ROOT / "docs" / "artifact.md"
SAMPLE = Sample("float")


@pytest.fixture(scope="module")
def artifact() -> bytes:
    pytest.importorskip("ziglang", reason="an artifact is compiled")
    return compile_model(SAMPLE.model_path, Options())


def test_a_c_program_runs_the_parts(artifact: bytes, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler for programs that use libc")
    for block in blocks(PAGE):
        (tmp_path / block.path).write_text(block.text, encoding="utf-8")
    (tmp_path / "digits.circlet").write_bytes(artifact)
    (tmp_path / "parts").mkdir()
    include = f"-I{ROOT / 'circlet' / 'backends' / 'cpu' / 'runtime'}"
    for command in (
        [sys.executable, "take_apart.py", "digits.circlet", "parts"],
        ["cc", "-std=gnu11", "-Wall", "-Werror", include, "host.c", "-ldl", "-o", "host"],
    ):
        environment = child.environment()
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=240)
    picture = SAMPLE.image()
    done = subprocess.run(
        ["./host", "parts"], cwd=tmp_path, input=picture.tobytes(), capture_output=True, timeout=240
    )
    assert done.returncode == 0
    (wanted,) = load_artifact(artifact, threads=1).run([picture]).values()
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32), wanted.ravel())


def test_the_header_is_laid_out_as_the_page_says(artifact: bytes) -> None:
    magic, version, sections, text_bytes, file_bytes = struct.unpack_from("<8sIIQQ", artifact)
    assert (magic, version, file_bytes) == (b"CIRCLETA", 3, len(artifact))
    table = [struct.unpack_from("<QQ", artifact, 64 + 48 * i) for i in range(sections)]
    assert all(start % 64 == 0 and start + size <= file_bytes for start, size in table)
    assert artifact[64 + 48 * sections :][:text_bytes].startswith(b'{"metadata":')
