"""Fetches the libraries of the report's page from the npm registry, pinned by hash.

    python tools/fetch_vendored.py [--check]

They are part of the repository, so that `pip install .` needs no other registry than PyPI; this
re-creates them, byte for byte. `--check` writes nothing and fails where a file differs.
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

FOLDER = Path(__file__).parents[1] / "circlet" / "report" / "assets" / "vendor"
REGISTRY = "https://registry.npmjs.org"
_TIMEOUT_S = 60


class Package(NamedTuple):
    """A tarball of the registry, its SHA-512, and which of its files become which here."""

    path: str
    sha512: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "d3/-/d3-7.9.2.tgz",
        "ZKb/mONPVKzaO5UlcWcwN8bS4ezvQaYu+bsou+XgNABdGC800kwH651ADTbbTxMPHW13UlvbQafdmJQDk1w7Mg==",
        {"package/dist/d3.min.js": "d3.min.js", "package/LICENSE": "d3.LICENSE"},
    ),
    Package(
        "@dagrejs/dagre/-/dagre-3.1.3.tgz",
        "X4aUTwOReZvthaZWOVHqlJ52/ZdhZFEM4+Lh/uR4XooUSLE6p71bcy7MPGzYnNUcNh+nj+i/qJQpCMIdQnSmrg==",
        {
            "package/dist/dagre.min.js": "dagre.min.js",
            "package/LICENSE": "dagre.LICENSE",
            "package/dist/dagre.min.js.LEGAL.txt": "dagre.LEGAL.txt",
        },
    ),
)


def fetched(package: Package) -> dict[str, bytes]:
    """The files of a package by their names here; SystemExit where its hash is another."""
    with urlopen(f"{REGISTRY}/{package.path}", timeout=_TIMEOUT_S) as answer:
        tarball = answer.read()
    found = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    if found != package.sha512:
        sys.exit(f"{package.path}: its SHA-512 is {found}, not {package.sha512}")
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        return {name: _content(archive, path) for path, name in package.files.items()}


def _content(archive: tarfile.TarFile, path: str) -> bytes:
    file = archive.extractfile(path)
    if file is None:
        sys.exit(f"{path} is no file of the package")
    return file.read()


def main(arguments: list[str]) -> None:
    """Write the files, or compare them."""
    wanted = {name: data for package in PACKAGES for name, data in fetched(package).items()}
    if "--check" in arguments:
        other = [n for n, data in wanted.items() if (FOLDER / n).read_bytes() != data]
        sys.exit(f"these differ: {', '.join(other)}" if other else 0)
    for name, data in wanted.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1:])
