"""Plans and units that are not what they should be are refused before they run."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.abi import Jump, Operand, PlanBuilder, Space, abi_dtypes
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.toolchain import compile_unit
from circlet.errors import ArtifactError, CircletError
from circlet.target.targets import native_target
from tests.backends.cpu import native

HEADER_DAMAGE = {
    "magic": 1,
    "abi_version": 99,
    "step_count": 1000,
    "operand_count": 2**32 - 1,
    "input_count": 0,
    "output_count": 0,
    "unit_count": 2,
    "params_offset": 2**63,
    "params_bytes": 2**64 - 1,
    "arena_bytes": 2**63,
    "scratch_bytes": 2**62,
    "constants_bytes": 1,
    "resident_bytes": 2**63,
    "once_steps": 3,
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", HEADER_DAMAGE)
def test_a_damaged_header_is_refused(name: str) -> None:
    plan = bytearray(native.chain_plan(2, 4))
    header = np.frombuffer(plan, abi_dtypes()["circlet_plan"], 1)
    header[name] = HEADER_DAMAGE[name]
    with pytest.raises(ArtifactError):
        native.executable(bytes(plan))


STEP_DAMAGE = {
    "unit": 1,
    "kernel": native.NAP + 1,
    "first_operand": 5,
    "operand_count": 2**32 - 1,
    "params_offset": 8,
    "tasks": -1,
}


@pytest.mark.parametrize("name", STEP_DAMAGE)
def test_a_damaged_step_is_refused(name: str) -> None:
    plan = bytearray(native.chain_plan(2, 4))
    types = abi_dtypes()
    steps = np.frombuffer(plan, types["circlet_step"], 2, types["circlet_plan"].itemsize)
    steps[name][1] = STEP_DAMAGE[name]
    with pytest.raises(ArtifactError):
        native.executable(bytes(plan))


@pytest.mark.parametrize(
    "operand",
    [
        Operand(Space.ARENA, 0, 65),
        Operand(Space.ARENA, 0, -1),
        Operand(Space.CONSTANT, 0, 1),
        Operand(Space.RESIDENT, 0, 1),
        Operand(Space.INPUT, 1),
        Operand(Space.OUTPUT, 1),
        Operand(Space.OUTPUT, 0, -4),
        Operand(9),  # type: ignore[arg-type]
    ],
)
def test_an_operand_outside_its_space_is_refused(operand: Operand) -> None:
    builder = PlanBuilder()
    builder.add_step(0, native.ADD, [operand], b"", 1)
    with pytest.raises(ArtifactError):
        native.executable(native.finish(builder, arena_bytes=64))


@pytest.mark.parametrize(("place", "destination"), [(0, 2), (2, 0)])
def test_a_jump_into_or_out_of_what_runs_once_is_refused(place: int, destination: int) -> None:
    builder = PlanBuilder()
    for number in range(3):
        if number == place:
            builder.add_jump(Jump.ALWAYS, [], destination)
        else:
            builder.add_step(0, native.ADD, [Operand(Space.RESIDENT)], b"", 1)
    plan = native.finish(builder, resident_bytes=64, once_steps=1)
    with pytest.raises(ArtifactError):
        native.executable(plan)


def test_random_damage_never_crashes() -> None:
    plan = native.chain_plan(3, 4)
    random = np.random.default_rng(7)
    accepted = 0
    for _ in range(300):
        damaged = bytearray(plan)
        damaged[random.integers(len(plan) - 16)] = random.integers(256)
        try:
            native.executable(bytes(damaged[: random.integers(1, len(plan) + 1)]))
            accepted += 1
        except CircletError:
            continue
    assert accepted < 300


def test_a_unit_of_another_abi_is_refused() -> None:
    other = native.UNIT.replace("CIRCLET_ABI_VERSION, ", "99u, ")
    assert other != native.UNIT
    image = compile_unit(other, native_target())
    with pytest.raises(ArtifactError):
        Executable(native.runtime(), native.chain_plan(1, 4), b"", [image])
    with pytest.raises(ArtifactError, match="symbol"):
        Executable(native.runtime(), native.chain_plan(1, 4), b"", [native.runtime_image()])
