"""A process may be forked whatever its other threads are doing; parent and child go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import child
from tests.runtime.forks import OPERATIONS

ROOT = Path(__file__).parents[2]
PARENT_S = 240


def forked(operation: str, count: int, backend: str) -> None:
    command = [sys.executable, "-m", "tests.runtime.forks", operation, str(count), backend]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=child.environment(),
        capture_output=True,
        text=True,
        timeout=PARENT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_children_of_busy_processes_run_networks_and_end() -> None:
    forked("resized", 3, "cpu")


# What the backend does not take part in is tried with one of them.
APART = [("reference", operation) for operation in ("open", "run", "stateful_run", "resized")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "operation"), [*(("cpu", operation) for operation in OPERATIONS), *APART]
)
def test_no_child_of_many_hangs(backend: str, operation: str) -> None:
    forked(operation, 4 if operation in ("doctor", "compile") else 16, backend)


def in_child(program: str) -> str:
    """What a program of its own prints."""
    environment = child.environment()
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PARENT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SLOW_MODULE = """
import os, sys, threading, time
import circlet.forking
sys.path.insert(0, {folder!r})
entered = threading.Event()
sys.modules["entered"] = entered
thread = threading.Thread(target=__import__, args=("this_is_ml_dtypes",))
circlet.forking._WAITED_FOR = {{"this_is_ml_dtypes"}}
thread.start()
entered.wait()
child = os.fork()
if not child:
    import this_is_ml_dtypes
    os._exit(7 if this_is_ml_dtypes.done else 8)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_until_other_threads_have_imported(tmp_path: Path) -> None:
    text = "import sys, time\nsys.modules['entered'].set()\ntime.sleep(0.3)\ndone = True\n"
    (tmp_path / "this_is_ml_dtypes.py").write_text(text)
    assert in_child(SLOW_MODULE.format(folder=str(tmp_path))) == "7\n"


STATE = """
import os, threading
import numpy as np
from circlet import Session
from circlet.formats import dumps
from circlet.ir import Model
from tests.recurrent import Lstm, lstm_graph, steps_for
graph = lstm_graph(Lstm((1, 1, 6, 20, 20), stored=True))
(step,) = steps_for(graph, 1)
session = Session(dumps(Model([graph]), "tflite"), threads=1)
def run(**options):
    return next(iter(session.run(step, **options).values()))
first, second, third = run(), run(), run()
def child_answers():
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    answer = run()
    same = [np.array_equal(known, answer) for known in (first, second, third)]
    os._exit(same.index(True) if any(same) else 9)
session.reset()
run()
print("between runs:", child_answers())
inside, go = threading.Event(), threading.Event()
def look(seen):
    inside.set()
    go.wait()
thread = threading.Thread(target=run, kwargs={"observer": look})
thread.start()
inside.wait()
print("within a run:", child_answers())
go.set()
thread.join()
print("parent:", int(np.array_equal(run(), third)))
"""


def test_a_child_goes_on_from_the_state_or_starts_afresh_where_a_run_was_cut() -> None:
    assert in_child(STATE).split("\n")[:3] == ["between runs: 1", "within a run: 0", "parent: 1"]


POOL = """
import os
import numpy as np
from circlet import Session
from tests.runtime import networks
x = networks.convolutions_input(48, 32)
session = Session(networks.convolutions(), threads=2, strict=True)
def threads():
    return len(os.listdir("/proc/self/task"))
for _ in range(3):
    session.run([x])
alone = threads()
child = os.fork()
if not child:
    before = threads()
    for _ in range(3):
        session.run([x])
    os._exit(10 * before + threads() - before)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), alone > 1)
"""


def test_a_child_makes_workers_of_its_own() -> None:
    assert in_child(POOL) == "11 True\n"


def test_a_child_collects_garbage_though_another_thread_had_paused_that() -> None:
    program = (
        "import gc, os, threading\nfrom circlet.garbage import gc_paused\n"
        "paused, go = threading.Event(), threading.Event()\n"
        "def pause():\n    with gc_paused():\n        paused.set()\n        go.wait()\n"
        "thread = threading.Thread(target=pause)\nthread.start()\npaused.wait()\n"
        "child = os.fork()\nif not child:\n    os._exit(gc.isenabled())\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())\n"
        "go.set()\nthread.join()\n"
    )
    assert in_child(program) == "1 False\n"


def test_a_child_removes_nothing_of_its_parent() -> None:
    program = (
        "import os, sys, threading\nfrom circlet.scratch import folder_of_process, scratch_folder\n"
        "own, made, go = folder_of_process(), threading.Event(), threading.Event()\nheld = []\n"
        "def hold():\n    with scratch_folder() as folder:\n"
        "        held.append(folder)\n        made.set()\n        go.wait()\n"
        "thread = threading.Thread(target=hold)\nthread.start()\nmade.wait()\n"
        "child = os.fork()\nif not child:\n    assert folder_of_process() != own\n    sys.exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "with scratch_folder():\n    print(os.path.isdir(own), os.path.isdir(held[0]))\n"
        "go.set()\nthread.join()\n"
    )
    assert in_child(program) == "True True\n"
