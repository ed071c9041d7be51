"""Artifacts that a caller trusts: opened by name, and by key or digest where one is demanded."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from circlet.artifact.cache import Cache
from circlet.artifact.file import Artifact, open_artifact
from circlet.errors import InputError, PlacementError, SignatureError
from circlet.options import Options
from circlet.runtime.loading import Opened, load_code
from circlet.stored import Bytes, Stored, StoredFile, StrPath, stored
from circlet.struct import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPILED_IN = (
    *("backends", "target", "shapes", "signature", "tune_seconds"),
    *("backend_of", "backend_of_source"),
)


class ArtifactSource(Struct):
    """An artifact whose code may be executed.

    Attributes:
        file: Its file or bytes.
        digest: What `circlet inspect` calls its digest; "" where any will do.
        public_keys: Files of Ed25519 keys, one of which must have signed it; none asks for none.
        signature: The signature's text; None for the file beside it whose name ends in .sig.
    """

    file: Stored
    digest: str = ""
    public_keys: tuple[StrPath, ...] = ()
    signature: str | None = None


def artifact_source(
    source: StrPath | Bytes,
    digest: str = "",
    public_keys: Sequence[StrPath] = (),
    signature: str | None = None,
) -> ArtifactSource:
    """An artifact to be opened; raises as `stored`."""
    if isinstance(public_keys, (str, os.PathLike)):
        wanted = "a list of key files"
        raise InputError.mistyped("public_keys", public_keys, wanted)
    return ArtifactSource(stored(source, "the artifact"), digest, tuple(public_keys), signature)


def open_trusted(source: ArtifactSource, options: Options) -> Opened:
    """Load the code of an artifact, after everything that was demanded of it was found true.

    Raises:
        SignatureError: It is not the one that was asked for, or not signed by any of the keys.
        InputError: Options ask for what only compiling could give.
        ArtifactError, FileError, TargetError: It is damaged, or not for this machine.
    """
    _check_unchanged(options)
    start = time.perf_counter()
    artifact = open_artifact(source.file)
    _check_accepted(artifact, source)
    _check_made_for(artifact, options)
    _verify(artifact, source.file, options)
    opened = load_code(artifact, options.limits)
    opened.seconds["load"] = time.perf_counter() - start
    if options.strict:
        _check_strict(opened)
    return opened


def _check_accepted(artifact: Artifact, source: ArtifactSource) -> None:
    if source.digest and source.digest.lower() != artifact.digest:
        raise SignatureError(
            "an artifact is not the one that was asked for",
            where=artifact.name,
            why=f"its digest is {artifact.digest}, wanted was {source.digest}",
            fix="get the right file, or ask for this digest if you trust it",
        )
    if source.public_keys:
        from circlet.artifact.signing import check_signature

        check_signature(artifact, source.public_keys, source.signature)


def _verify(artifact: Artifact, file: Stored, options: Options) -> None:
    """See that every hash fits; that of weights by memory where the file was not touched since."""
    if not isinstance(file, StoredFile) or not options.cache:
        artifact.select()
        return
    Cache().verify(artifact, file, options.verify)


def _check_unchanged(options: Options) -> None:
    """InputError where options ask for what only compiling could give."""
    asked = [name for name in _COMPILED_IN if getattr(options, name) != getattr(Options, name)]
    if asked:
        raise InputError(
            "an artifact keeps what it was compiled for",
            where=", ".join(asked),
            why="its sizes, entry point, backends and kernels are fixed",
            fix="open the model that it was made of, or compile that anew with these options",
        )


def _check_strict(opened: Opened) -> None:
    rows = opened.metadata["placement"]
    moved = [(source, kind, refused[0][1]) for kind, source, _, refused in rows if refused]
    if moved:
        first = next(refused[0][0] for *_, refused in rows if refused)
        raise PlacementError.moved(first, moved)


def _check_made_for(artifact: Artifact, options: Options) -> None:
    """InputError where an artifact was compiled for another level or precision than asked for."""
    for name, wanted in (("level", options.level), ("precision", options.precision)):
        made = artifact.metadata.get(name, wanted)
        if wanted not in (None, made):
            raise InputError(
                f"an artifact keeps the {name} that it was compiled for",
                where=name,
                why=f"{wanted} was asked for, it was made for {made}",
                fix=f"compile the model with {name} {wanted}",
            )
