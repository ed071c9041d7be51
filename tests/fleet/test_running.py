"""A fleet that runs: TLS keeps others out, and trials that never end are given up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="the extra fleet is not installed")
pytest.importorskip("cryptography", reason="the extra sign is not installed")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from circlet.errors import FleetError
from circlet.fleet.cluster import NO_TLS, Tls, connect
from circlet.sample import Sample
from tests.fleet.processes import Fleet, fleet, until

pytestmark = pytest.mark.slow


def write_certificates(folder: Path) -> Tls:
    """An authority, and a certificate of it that all processes of a test share."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in ("ca", "fleet")]
    now = dt.datetime.now(dt.UTC)
    for name, key, file in zip(names, keys, ("ca", "fleet"), strict=True):
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=file == "ca", path_length=None), critical=True)
            .sign(keys[0], hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        (folder / f"{file}.pem").write_bytes(pem)
    (folder / "fleet.key").write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return Tls(folder / "ca.pem", folder / "fleet.pem", folder / "fleet.key")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(tls: Tls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A scheduler and a worker that know each other by certificates."""
    with fleet(tmp_path_factory.mktemp("fleet")) as made:
        made.serve(["fleet", "serve", "--port", "0", *options(tls)])
        made.start(["fleet", "work", "--scheduler", made.scheduler, *options(tls)])
        yield made


def options(tls: Tls) -> list[str]:
    return ["--tls-ca", f"{tls.ca}", "--tls-cert", f"{tls.cert}", "--tls-key", f"{tls.key}"]


def test_with_tls_those_without_a_certificate_stay_out(encrypted: Fleet, tls: Tls) -> None:
    assert encrypted.scheduler.startswith("tls://")
    with connect(encrypted.scheduler, tls) as client:
        until(lambda: len(client.scheduler_info()["workers"]) == 1)
    for address in (encrypted.scheduler, encrypted.scheduler.replace("tls:", "tcp:")):
        with pytest.raises(FleetError):
            connect(address, NO_TLS, seconds=3)


def test_a_trial_that_never_ends_is_given_up(encrypted: Fleet, tls: Tls, tmp_path: Path) -> None:
    storage = ["--storage", f"sqlite:///{tmp_path / 'fleet.db'}", "--study", "long"]
    what = ["--backend", "reference", "--threads", "1", "--evaluations", "1"]
    long = ["--rounds", "1000", "--memory", "planned", "--trial-seconds", "6"]
    search = ["fleet", "search", str(Sample().model_path), "--scheduler", encrypted.scheduler]
    report = encrypted.call([*search, *storage, *what, *long, *options(tls)])
    (found,) = report["studies"]
    assert (found["counts"]["evaluated"], found["counts"]["failed"]) == (1, 1)
    assert found["front"] == []
    with connect(encrypted.scheduler, tls) as client:
        until(lambda: len(client.scheduler_info()["workers"]) == 1)
