"""`circlet verify`: every fault of a network."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from circlet.cli.common import (
    CircletCommand,
    json_option,
    max_memory_option,
    print_json,
)
from circlet.cli.console import say
from circlet.cli.standard_input import InputFile
from circlet.formats import load
from circlet.limits import Limits
from circlet.ops.verification import Verification, verification
from circlet.words import counted


@click.command(cls=CircletCommand, name="verify")
@click.argument("model", type=InputFile())
@max_memory_option
@json_option
@click.pass_context
def command(ctx: click.Context, model: Path, limits: Limits, as_json: bool) -> None:
    """Check MODEL (.tflite, .circle or .onnx); exit code 1 if it breaks a rule or cannot be run."""
    found = verification(load(model, limits), limits)
    if as_json:
        unsupported = [entry._asdict() for entry in found.unsupported]
        print_json({"ok": found.ok, **asdict(found), "unsupported": unsupported})
    else:
        _show(found)
    ctx.exit(0 if found.ok else 1)


def _show(found: Verification) -> None:
    for violation in found.violations:
        say(violation.message, f"  where: {violation.where}")
        say(f"  why: {violation.why or 'sound networks keep this rule'} ({violation.rule})")
    for entry in found.unsupported:
        say(f"cannot be run: {entry}")
    broken = counted(len(found.violations), "violation")
    verdict = f"{broken}, {counted(len(found.unsupported), 'unsupported operator')}"
    checked = counted(found.ops, "operator")
    say(f"{found.model}: {'ok' if found.ok else verdict} ({checked} checked)")
