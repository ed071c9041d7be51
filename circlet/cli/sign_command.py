"""`circlet sign`: a signature beside an artifact."""

from __future__ import annotations

from pathlib import Path

import click

from circlet.artifact.file import open_artifact
from circlet.artifact.signing import SUFFIX, sign
from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.console import say
from circlet.regular_files import write_file


@click.command(cls=CircletCommand, name="sign")
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option(
    "--key", required=True, type=click.Path(path_type=Path), help="The private key, a PEM file."
)
@json_option
def command(artifact: Path, key: Path, as_json: bool) -> None:
    """Check every hash of ARTIFACT and write a signature of it to ARTIFACT.sig."""
    opened = open_artifact(artifact)
    target = Path(f"{artifact}{SUFFIX}")
    write_file(target, sign(opened, key).encode(), 0o644)
    if as_json:
        print_json({"signature": str(target), "digest": opened.digest})
        return
    say(f"{target}: signs digest {opened.digest}")
