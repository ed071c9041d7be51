"""Signatures of artifacts: Ed25519 (RFC 8032) over the header, which has the hash of all the rest.

Keys are PEM files, as OpenSSL writes them too. A signature is a text of two lines in a file of its
own beside the artifact, whose name is the artifact's with .sig behind it.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from circlet.artifact.digest import digest
from circlet.artifact.file import Artifact
from circlet.errors import FileError, InputError, SignatureError
from circlet.regular_files import write_file
from circlet.stored import StoredFile, StrPath

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SUFFIX = ".sig"
_TITLE = "Signature of a Circlet artifact by Ed25519 key"
_DOMAIN = b"circlet artifact header\0"
_KEY_ID_BYTES = 8


def new_key(path: StrPath) -> None:
    """Write a new private key, and its public key to a file with .pub behind the name.

    Raises:
        FileError: They cannot be written, or are there already.
    """
    _, serialization = _cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = os.fspath(path), f"{os.fspath(path)}.pub"
    for name in (private, public):
        if os.path.lexists(name):
            fix = "choose another name; a key that is lost cannot be made again"
            raise FileError("a key is there already", where=name, fix=fix)
    key = Ed25519PrivateKey.generate()
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    write_file(private, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    write_file(public, key.public_key().public_bytes(pem, form), 0o644)


def sign(artifact: Artifact, key: StrPath) -> str:
    """The text of a signature, made with the private key in a file.

    Raises:
        FileError, InputError: The key cannot be read, or is of another kind.
        ArtifactError: The artifact is damaged.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    _, serialization = _cryptography()
    artifact.verify_full()
    loaded = _loaded(key, lambda data: serialization.load_pem_private_key(data, None))
    if not isinstance(loaded, Ed25519PrivateKey):
        raise _not_ed25519(key)
    text = base64.b64encode(loaded.sign(_message(artifact))).decode()
    return f"{_TITLE} {_key_id(loaded.public_key())}\n{text}\n"


def check_signature(
    artifact: Artifact, public_keys: Sequence[StrPath], text: str | None = None
) -> None:
    """See that one of the keys signed an artifact.

    Args:
        artifact: Of which the header is checked; its hashes are checked as it is read.
        public_keys: PEM files.
        text: The signature; None to read it from the file beside the artifact.

    Raises:
        SignatureError: None of them did, or there is no signature.
        FileError, InputError: A key cannot be read, or is of another kind.
    """
    invalid, _ = _cryptography()
    keys = [_public_key(path) for path in public_keys]
    signature = _signature(artifact, text)
    for key in keys:
        try:
            key.verify(signature, _message(artifact))
        except invalid:
            continue
        return
    raise SignatureError(
        "an artifact was not signed by any key that is accepted",
        where=artifact.name,
        why=f"the signature fits none of {', '.join(map(_key_id, keys))}",
        fix="get the artifact from whom you trust, or accept the key of whoever signed it",
    )


def _message(artifact: Artifact) -> bytes:
    """What is signed; its first words are of no other kind of message."""
    return _DOMAIN + bytes(artifact.header)


def _signature(artifact: Artifact, text: str | None) -> bytes:
    where = f"{artifact.name}{SUFFIX}"
    if text is None:
        try:
            text = str(StoredFile(where, "the signature").data(), "ascii", "replace")
        except FileError as error:
            raise SignatureError(
                "an artifact is not signed",
                where=where,
                why=error.why,
                fix="put the signature beside the artifact, as `circlet sign` does",
            ) from error
    lines = text.splitlines()
    try:
        if len(lines) < 2 or not lines[0].startswith(_TITLE):
            raise ValueError("it has another first line")
        return base64.b64decode(lines[1], validate=True)
    except (ValueError, binascii.Error) as error:
        what = "a signature is damaged or is none"
        raise SignatureError(what, where=where, why=str(error), fix="sign again") from error


def _public_key(path: StrPath) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    _, serialization = _cryptography()
    key = _loaded(path, serialization.load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise _not_ed25519(path)
    return key


def _loaded(path: StrPath, load: Any) -> object:
    try:
        return load(bytes(StoredFile(path, "the key").data()))
    except (ValueError, TypeError) as error:
        raise InputError(
            "a key cannot be read",
            where=os.fspath(path),
            why=str(error).splitlines()[0] if str(error) else type(error).__name__,
            fix="give a PEM file, as `circlet keygen` writes it",
        ) from error


def _not_ed25519(path: StrPath) -> InputError:
    what, fix = "a key is of another kind", "make one with `circlet keygen`"
    return InputError(what, where=os.fspath(path), why="it is not an Ed25519 key", fix=fix)


def _key_id(key: Ed25519PublicKey) -> str:
    return digest(key.public_bytes_raw())[:_KEY_ID_BYTES].hex()


def _cryptography() -> tuple[Any, Any]:
    """The error of a signature that does not fit, and what reads and writes keys."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise InputError(
            "signatures need the package cryptography",
            where="the Python environment",
            why=str(error),
            fix="pip install 'circlet[sign]'",
        ) from error
    return InvalidSignature, serialization
