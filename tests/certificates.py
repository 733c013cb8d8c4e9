"""Certificates for tests: an authority that signs them, and a client's trust in it."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from files import replace_file

if TYPE_CHECKING:
    from pathlib import Path


class Authority:
    """A certificate authority; without ``key_identifiers`` it has none, as those of some clusters."""

    def __init__(self, folder: Path, name: str, *, key_identifiers: bool = True) -> None:
        self.folder, self.name, self.key_identifiers = folder, name, key_identifiers
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.cert = self.signed(name, self.key, is_authority=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self.cert.public_bytes(serialization.Encoding.PEM))

    def signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False) -> x509.Certificate:
        now = datetime.now(UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(
            issuer,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            now - timedelta(days=1),
            now + timedelta(days=2),
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName(name)]), critical=False
        )
        if self.key_identifiers:
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            builder = builder.add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        if is_authority:
            usage = x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            )  # fmt: skip
            builder = builder.add_extension(usage, critical=True)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, name: str, file_name: str = "") -> tuple[Path, Path]:
        """Issue a certificate, and return its file and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert, path = self.folder / f"{file_name or name}.crt", self.folder / f"{file_name or name}.key"
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        for file, data in ((cert, self.signed(name, key).public_bytes(serialization.Encoding.PEM)), (path, text)):
            replace_file(file, data.decode())
        return cert, path


def trusting(*authorities: Authority, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for each in authorities:
        context.load_verify_locations(each.path)
    if client is not None:
        context.load_cert_chain(*client)
    return context
