"""What is imported when: a start must not pay for what it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from circlet.compiler.compile import compile_model
from circlet.options import Options
from circlet.sample import Sample

NEVER_AT_RUN_TIME = [
    "circlet.ops",
    "circlet.formats",
    "circlet.passes",
    "circlet.plan",
    "circlet.placement",
    "circlet.ir",
    "circlet.cli",
    "circlet.compiler.build",
    "circlet.backends.cpu.compile",
    "circlet.target.features",
    "circlet.backends.cpu.toolchain",
    "circlet.backends.base",
    "circlet.backends.reference.partition",
    "click",
    "rich",
    "PIL",
    "dataclasses",
    "hashlib",
    "json",
    "pathlib",
    "subprocess",
    "tempfile",
    "threading",
    "logging",
    "ziglang",
]
RUN = """
import numpy as np
import circlet
session = circlet.{call}({source!r})
value = session.inputs[0]
session.run([np.zeros(value.shape, value.dtype)])
"""


def loaded(code: str) -> set[str]:
    """Modules that are loaded after a program ran."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    ours = {name for name in loaded("import circlet") if name.startswith("circlet")}
    assert ours == {"circlet"}


def test_importing_the_package_loads_no_numpy() -> None:
    assert "numpy" not in loaded("import circlet")


def test_a_public_name_is_imported_when_it_is_used() -> None:
    assert "circlet.runtime.session" in loaded("import circlet; circlet.Session")


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["artifact", "cached model"])
def test_a_cached_start_loads_neither_readers_nor_compiler(kind: str, tmp_path: Path) -> None:
    if kind == "artifact":
        source, call = tmp_path / "sample.circlet", "load_artifact"
        source.write_bytes(compile_model(Sample().model_path, Options()))
    else:
        source, call = Sample().model_path, "Session"
        loaded(RUN.format(source=str(source), call=call))
    modules = loaded(RUN.format(source=str(source), call=call))
    before = loaded("import numpy")
    assert sorted(modules.intersection(NEVER_AT_RUN_TIME) - before) == []


NEVER_FOR_ONNX = ["onnx", "google.protobuf", "circlet.ops", "circlet.ir", "circlet.compiler"]
RUN_ONNX = """
import numpy as np
import circlet
session = circlet.InferenceSession({source!r})
(value,) = session.get_inputs()
session.run(None, {{value.name: np.zeros((2, 3), np.float32)}})
"""


def test_a_cached_inference_session_does_not_load_onnx(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx.helper", reason="the package onnx is not installed")
    sides = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [sides[0]], [sides[1]])
    source = tmp_path / "relu.onnx"
    opsets = [helper.make_opsetid("", 17)]
    source.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    loaded(RUN_ONNX.format(source=str(source)))
    modules = loaded(RUN_ONNX.format(source=str(source)))
    assert sorted(modules.intersection(NEVER_FOR_ONNX)) == []


def test_help_loads_no_numpy() -> None:
    code = "import sys; sys.argv = ['circlet', '--help']\nfrom circlet.cli import main\n"
    modules = loaded(f"{code}try: main()\nexcept SystemExit: pass")
    assert not modules & {"numpy", "rich", "circlet.runtime", "circlet.ops", "circlet.formats"}


def test_a_command_that_reads_no_model_loads_no_readers() -> None:
    assert not loaded("import circlet.cli.run_command") & {"circlet.ops", "circlet.ir"}
