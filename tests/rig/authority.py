"""Certificates for tests: a certificate authority and what it signs."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class SignedCertificate:
    """A key, its certificate and the certificate of its authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    ca: x509.Certificate

    @property
    def pem(self) -> str:
        return _pem(self.certificate)

    @property
    def ca_pem(self) -> str:
        return _pem(self.ca)

    def key_pem(self, password: str = "", *, traditional: bool = False) -> str:
        old = serialization.PrivateFormat.TraditionalOpenSSL
        plain = serialization.NoEncryption()
        encryption = serialization.BestAvailableEncryption(password.encode()) if password else plain
        form = old if traditional else serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()

    def pkcs12(self, path: Path, password: str) -> Path:
        """Write a key store with the key and its certificate."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, [self.ca], encryption
            )
        )
        return path

    def keystore(self, path: Path) -> Path:
        """Write key and chain to one PEM file, as Kafka's brokers read it."""
        path.write_text(self.key_pem() + self.pem + self.ca_pem)
        return path


class Authority:
    """Signs certificates for loopback or for a given host."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._builder(self._name, self._key.public_key(), _DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())  # fmt: skip

    @property
    def pem(self) -> str:
        return _pem(self.certificate)

    def file(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def sign(
        self, name: str, *, host: str = "127.0.0.1", life: timedelta = _DAY
    ) -> SignedCertificate:
        """Return a certificate for a host; with a negative life it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        try:
            names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(host))]
        except ValueError:
            names = [x509.DNSName(host)]
        if host == "127.0.0.1":
            names.append(x509.DNSName("localhost"))
        builder = self._builder(subject, key.public_key(), life)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return SignedCertificate(key, builder.sign(self._key, hashes.SHA256()), self.certificate)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + life)
        )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
