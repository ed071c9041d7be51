"""Artifacts, and what tuning found out, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from circlet.cli.common import print_json
from circlet.cli.console import say
from circlet.commands.inspect_artifact import ArtifactInspection
from circlet.words import counted


def show_artifact(found: ArtifactInspection, *, as_json: bool) -> None:
    """What it was made by and for, its inputs and outputs, its partitions, its tuning."""
    if as_json:
        print_json(asdict(found))
        return
    say(f"{found.artifact}: {found.size_bytes:,} bytes, made by Circlet {found.circlet}")
    say(f"for {', '.join(found.targets)}; level {found.level}, precision {found.precision}")
    say(f"digest {found.digest}")
    if found.model:
        say(f"made of the model with the BLAKE2b hash {found.model}")
    for role, values in (("input", found.inputs), ("output", found.outputs)):
        for value in values:
            sizes = "x".join(map(str, value.shape)) or "scalar"
            say(f"{role}: {value.name}  {value.dtype}[{sizes}]")
    for part in found.partitions:
        steps = f", {counted(part.steps, 'kernel call')}, arena {part.arena_bytes:,} bytes"
        say(f"{part.backend}: {counted(part.ops, 'fused operator')}{steps if part.steps else ''}")
    for record in found.tuning:
        show_tuning(record)


def show_tuning(record: Mapping[str, Any]) -> None:
    """A record of tuning: the verdict, the ratios, the settings that won."""
    say(f"tuned for {record['target']} on {record['machine']}: {record['why']}")
    for threads, ratio in record["ratios"].items():
        say(f"  {ratio:.3f} of the untuned time, threads: {threads}")
    if record["settings"]:
        say("chosen:" if record["kept"] else "faster by themselves, and not chosen:")
    for knob, setting in record["settings"].items():
        say(f"  {knob}")
        say(f"      {setting}")
