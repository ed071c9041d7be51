"""Sessions of artifacts, which hold code: a way in of their own."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.options import Options
from circlet.runtime.artifacts import artifact_source
from circlet.runtime.session import Session
from circlet.stored import Bytes, StrPath


def load_artifact(
    source: StrPath | Bytes,
    *,
    threads: int | None = None,
    strict: bool = False,
    cache: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    level: str | None = None,
    precision: str | None = None,
    verify: str = "once",
    digest: str = "",
    public_keys: Sequence[StrPath] = (),
    signature: str | None = None,
    executor: str | None = None,
) -> Session:
    """A session of an artifact that `circlet compile` made. **It executes code in the file.**

    Args:
        source: Path or bytes of the artifact.
        threads, strict, limits: As for `Session`.
        cache: Whether the cache may remember that the file's weights were verified.
        level, precision: What the artifact must have been compiled for, if given.
        verify: When the hashes of weights are checked: "once" for each file as long as it is not
            touched, or "always". Those of code are always checked.
        digest: The digest that the artifact must have, as `circlet inspect` shows it; any if "".
        public_keys: Files of Ed25519 public keys (PEM), one of which must have signed the artifact;
            none is asked for where there are none.
        signature: The signature's text; by default that of the file beside the artifact whose name
            has .sig behind it.
        executor: What runs the partitions, as for `Session`; by default what the artifact was
            compiled for.

    Raises:
        SignatureError: It is another artifact, or none of the keys signed it; nothing was executed.
        ArtifactError: It is damaged, of another version, or no artifact.
        CircletError: As `Session`.
    """
    options = Options(
        strict=strict,
        cache=cache,
        limits=limits,
        level=level,
        precision=precision,
        verify=verify,
        executor=executor,
    )
    trusted = artifact_source(source, digest, public_keys, signature)
    return Session.of(trusted, options, threads=threads)
