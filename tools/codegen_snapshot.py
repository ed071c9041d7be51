"""What Circlet generates for a set of networks, so that two states of the sources can be compared.

    python tools/codegen_snapshot.py OUT.json MODEL... [--target x86_64_v3,aarch64+neon]
    python tools/codegen_snapshot.py --compare OLD.json NEW.json

No C compiler runs: `CIRCLET_CC` is a program that hands C text back as if it were compiled, so an
artifact holds the text of its units beside plans and packed constants, and every section is hashed.
Equal hashes prove that a refactoring changed nothing of what runs. The texts are kept in a folder
beside OUT.json, one file for each hash, to be looked at with `diff`.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from struct import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

HEADER, SECTION = Struct("<8sIIQQ32s"), Struct("<QQ32s")
COPY = "#!/bin/sh\nif [ $# -lt 3 ]; then echo snapshot; else cp unit.c unit.so; fi\n"
Snapshot = dict[str, dict[str, list[str]]]


def sections(artifact: bytes) -> Iterator[bytes]:
    """Everything that an artifact holds, apart from its description."""
    count = HEADER.unpack_from(artifact)[2]
    table = artifact[HEADER.size : HEADER.size + count * SECTION.size]
    for start, size, _ in SECTION.iter_unpack(table):
        yield artifact[start : start + size]


def generated(model: Path, target: str, texts: Path) -> list[str]:
    """Hashes of what is generated for a model, sorted; or the code of the error."""
    from click.testing import CliRunner

    from circlet.cli import group

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.circlet"
        command = ["compile", str(model), "-o", str(out), "--target", target]
        result = CliRunner().invoke(group, command)
        if result.exit_code:
            return [result.output.split(":")[0][:40] or repr(result.exception)]
        found = {}
        for section in sections(out.read_bytes()):
            name = blake2b(section, digest_size=12).hexdigest()
            found[name] = section
        for name, section in found.items():
            if section and section.isascii() and b"\0" not in section:
                (texts / name).write_bytes(section)
        return sorted(found)


def snapshot(models: Sequence[Path], targets: Sequence[str], texts: Path) -> Snapshot:
    """Hashes by target and model."""
    texts.mkdir(parents=True, exist_ok=True)
    return {
        target: {model.name: generated(model, target, texts) for model in models}
        for target in targets
    }


def differences(old: Snapshot, new: Snapshot) -> Iterator[str]:
    """A line for each network whose generated code differs."""
    for target, rows in old.items():
        for model, hashes in rows.items():
            now = new.get(target, {}).get(model)
            if now != hashes:
                gone = sorted(set(hashes) - set(now or ()))
                came = sorted(set(now or ()) - set(hashes))
                yield f"{target} {model}: - {' '.join(gone)} + {' '.join(came)}"


def main() -> int:
    """Make a snapshot, or compare two; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--target", default="x86_64_v3")
    parser.add_argument("out", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    given = parser.parse_args()
    if given.compare:
        old, new = (json.loads(path.read_text()) for path in (given.out, given.models[0]))
        found = list(differences(old, new))
        sys.stdout.write("\n".join([*found, f"{len(found)} networks differ\n"]))
        return bool(found)
    with tempfile.TemporaryDirectory() as folder:
        copier = Path(folder) / "copy-unit"
        copier.write_text(COPY)
        copier.chmod(copier.stat().st_mode | stat.S_IXUSR)
        os.environ |= {"CIRCLET_CC": str(copier), "CIRCLET_CACHE_DIR": str(Path(folder) / "cache")}
        found = snapshot(given.models, given.target.split(","), given.out.with_suffix(""))
    given.out.write_text(json.dumps(found, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
