"""`circlet doctor`: what this machine offers."""

from __future__ import annotations

import click

from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.console import say
from circlet.commands.doctor import diagnose


@click.command(cls=CircletCommand, name="doctor")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check CPU, compiler, cache and backends; exit code 1 if something does not work."""
    findings = diagnose()
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        width = max(len(finding.subject) for finding in findings)
        for finding in findings:
            first, *more = finding.text.split("\n")
            say(f"{'ok ' if finding.ok else 'NOT'} {finding.subject:{width}}  {first}", *more)
    ctx.exit(0 if all(finding.ok for finding in findings) else 1)
