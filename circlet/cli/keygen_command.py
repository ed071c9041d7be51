"""`circlet keygen`: a key that signs artifacts."""

from __future__ import annotations

from pathlib import Path

import click

from circlet.artifact.signing import new_key
from circlet.cli.common import CircletCommand, json_option, print_json
from circlet.cli.console import say


@click.command(cls=CircletCommand, name="keygen")
@click.argument("key", type=click.Path(path_type=Path))
@json_option
def command(key: Path, as_json: bool) -> None:
    """Write a new Ed25519 private key to KEY, and its public key to KEY.pub.

    KEY signs artifacts (`circlet sign`) and is to be kept secret; whoever runs them accepts KEY.pub
    (`circlet run --public-key`, `circlet.load_artifact(public_keys=...)`).
    """
    new_key(key)
    if as_json:
        print_json({"private_key": str(key), "public_key": f"{key}.pub"})
        return
    say(f"private key: {key}", f"public key:  {key}.pub")
