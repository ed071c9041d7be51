"""`circlet keygen`: a key that signs artifacts."""

from __future__ import annotations

from pathlib import Path

import click

from circlet.artifact.signing import new_key
from circlet.cli.common import CircletCommand


@click.command(cls=CircletCommand, name="keygen")
@click.argument("key", type=click.Path(path_type=Path))
def command(key: Path) -> None:
    """Write a new Ed25519 private key to KEY, and its public key to KEY.pub.

    KEY signs artifacts (`circlet sign`) and is to be kept secret; whoever runs them accepts KEY.pub
    (`circlet run --public-key`, `circlet.load_artifact(public_keys=...)`).
    """
    new_key(key)
    click.echo(f"private key: {key}")
    click.echo(f"public key:  {key}.pub")
