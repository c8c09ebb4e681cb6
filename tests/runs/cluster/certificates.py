"""Authorities and certificates for the tests, made in memory and written where a test wants them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _certificate(name, key, issuer, issuer_key, *, authority):
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def issued(folder: Path) -> dict[str, str]:
    """An authority of its own in a folder, and one certificate with its key: the TLS options of a cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "cluster")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    authority = _certificate(names[0], keys[0], names[0], keys[0], authority=True)
    leaf = _certificate(names[1], keys[1], names[0], keys[0], authority=False)
    secret = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = serialization.Encoding.PEM
    files = {"ca": authority.public_bytes(pem), "cert": leaf.public_bytes(pem), "key": secret}
    for name, data in files.items():
        (folder / f"{name}.pem").write_bytes(data)
    return {f"tls_{name}": str(folder / f"{name}.pem") for name in files}
