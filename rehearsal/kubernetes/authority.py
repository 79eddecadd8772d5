"""A cluster's certificate authority, made anew for every cluster and kept nowhere else."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=7)
"""A rehearsal lives for minutes, one that is kept for days."""


@dataclass(frozen=True)
class Identity:
    """A certificate with its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes

    def save(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write ``<name>.crt`` and ``<name>.key`` (readable by the owner alone) and return both paths."""
        return write_private(folder / f"{name}.crt", self.certificate_pem), write_private(
            folder / f"{name}.key", self.key_pem
        )


def write_private(path: Path, content: bytes) -> Path:
    """Write a file that only its owner may read, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


class Authority:
    """A self-signed certificate authority (ECDSA P-256) for one cluster.

    Args:
        name: its common name.
    """

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate_pem: bytes = certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, user: str, groups: Sequence[str] = ()) -> Identity:
        """A client certificate: Kubernetes reads the user from the common name, the groups from the organisations."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, name: str, dns_names: Sequence[str], addresses: Sequence[str]) -> Identity:
        """A server certificate for these DNS names and IP addresses."""
        names: list[x509.GeneralName] = [x509.DNSName(dns_name) for dns_name in dns_names]
        names.extend(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None = None
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Identity(
            certificate_pem=builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
            key_pem=key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )
