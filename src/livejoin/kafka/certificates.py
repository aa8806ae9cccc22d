"""Certificates and keys, from the properties of either client library: loaded, checked, as PEM.

The PEM text is part of the properties, so Spark's executors need no files. PKCS12 is converted to
PEM; for Java's own JKS format the error shows the command that converts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import Certificate, load_pem_x509_certificates

from livejoin.errors import SettingsError
from livejoin.kafka.login import PropertySets

_PEM = "-----BEGIN "
_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_VERIFY = "ssl.endpoint.identification.algorithm"


@dataclass(frozen=True)
class Certificates:
    """PEM texts: trusted CAs (empty: the system's), and the client's chain and key, if any."""

    ca: str = ""
    chain: str = ""
    key: str = field(default="", repr=False)


def load(given: Mapping[str, str]) -> Certificates:
    """The certificates of a block."""
    _require_verification(given)
    chain_and_key = _client_certificate(given)
    return Certificates(truststore_pem(given), *chain_and_key)


def truststore_pem(given: Mapping[str, str]) -> str:
    """CA certificates that brokers are verified against."""
    _require_at_most_one(given, "ssl.ca.pem", "ssl.ca.location", "ssl.truststore.certificates",
            "ssl.truststore.location")  # fmt: skip
    for name in ("ssl.ca.pem", "ssl.truststore.certificates"):
        if text := given.get(name):
            return _normalize_certificates(name, text.encode())
    for name in ("ssl.ca.location", "ssl.truststore.location"):
        location = given.get(name, "")
        if location and location != "probe":  # librdkafka: the system's default
            return _load_truststore(name, location, given.get("ssl.truststore.password", ""))
    return ""


def token_endpoint_ca(given: Mapping[str, str]) -> str:
    """CA certificates that the token endpoint is verified against."""
    _require_at_most_one(given, "https.ca.pem", "https.ca.location")
    if text := given.get("https.ca.pem"):
        return _normalize_certificates("https.ca.pem", text.encode())
    location = given.get("https.ca.location", "")
    return (
        _load_truststore("https.ca.location", location, "") if location not in ("", "probe") else ""
    )


def as_properties(found: Certificates) -> PropertySets:
    """The certificates for each client library; host names are always verified."""
    rdkafka, java = {_VERIFY: "https"}, {_VERIFY: "https"}
    if found.ca:
        rdkafka["ssl.ca.pem"] = found.ca
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": found.ca}
    if found.key:
        rdkafka |= {"ssl.certificate.pem": found.chain, "ssl.key.pem": found.key}
        java |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": found.chain,
            "ssl.keystore.key": found.key,
        }
    return PropertySets(rdkafka, java)


def _require_verification(given: Mapping[str, str]) -> None:
    algorithm = given.get(_VERIFY, "https").lower()
    if algorithm != "https":
        raise SettingsError(
            f"kafka: {_VERIFY} is {algorithm or 'empty'}: anyone could impersonate the broker",
            hint="Leave it out: host names are verified.",
        )
    verify = "enable.ssl.certificate.verification"
    if given.get(verify, "true").lower() != "true":
        raise SettingsError(
            f"kafka: {verify} is off: anyone could impersonate the broker",
            hint="Leave it out, and name the CA in ssl.ca.location.",
        )


def _client_certificate(given: Mapping[str, str]) -> tuple[str, str]:
    """The client's certificate chain and its decrypted key; empty where it has none."""
    store = given.get("ssl.keystore.location", "")
    password = given.get("ssl.key.password") or given.get("ssl.keystore.password", "")
    if store:
        data = _read_file("ssl.keystore.location", store)
        if _PEM.encode() not in data:
            return _load_keystore(store, data, given.get("ssl.keystore.password", ""))
        name = "ssl.keystore.location"
        return _normalize_certificates(name, data), _decrypt_key(name, data, password)
    chain = _text_or_file(given, "ssl.keystore.certificate.chain", "ssl.certificate")
    key = _text_or_file(given, "ssl.keystore.key", "ssl.key")
    if chain is None and key is None:
        return "", ""
    if chain is None or key is None:
        missing = "ssl.certificate.location" if chain is None else "ssl.key.location"
        raise SettingsError(f"kafka: a client certificate also needs {missing}")
    return _normalize_certificates(*chain), _decrypt_key(*key, password)


def _text_or_file(given: Mapping[str, str], java: str, rdkafka: str) -> tuple[str, bytes] | None:
    """A property's name with its PEM text or the content of its file."""
    for name in (java, f"{rdkafka}.pem"):
        if text := given.get(name):
            return name, text.encode()
    name = f"{rdkafka}.location"
    return (name, _read_file(name, given[name])) if given.get(name) else None


def _require_at_most_one(given: Mapping[str, str], *names: str) -> None:
    if len(found := [name for name in names if given.get(name)]) > 1:
        raise SettingsError(
            f"kafka: {found[0]} and {found[1]} both set trusted certificates", hint="Set only one."
        )


def _load_truststore(name: str, location: str, password: str) -> str:
    data = _read_file(name, location)
    if _PEM.encode() in data:
        return _normalize_certificates(name, data)
    found = _load_pkcs12(location, data, password)
    certificates = [entry.certificate for entry in found.additional_certs]
    if found.cert is not None:
        certificates.insert(0, found.cert.certificate)
    return _pem(*certificates)


def _load_keystore(location: str, data: bytes, password: str) -> tuple[str, str]:
    found = _load_pkcs12(location, data, password)
    if found.key is None or found.cert is None:
        raise SettingsError(f"kafka: {location} contains no key with its certificate")
    chain = [found.cert.certificate, *(entry.certificate for entry in found.additional_certs)]
    return _pem(*chain), _unencrypted_pem(found.key)


def _load_pkcs12(location: str, data: bytes, password: str) -> pkcs12.PKCS12KeyAndCertificates:
    if data[:4] in _JKS_MAGIC:
        raise SettingsError(
            f"kafka: {location} is a JKS store, which only Java can read",
            hint=f"Convert it to PKCS12: keytool -importkeystore -srckeystore {location}"
            f" -destkeystore {Path(location).with_suffix('.p12')} -deststoretype PKCS12",
        )
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError as error:
        raise SettingsError(
            f"kafka: {location} is neither PEM nor PKCS12 that its password opens",
            hint="Its password is in ssl.truststore.password or ssl.keystore.password.",
        ) from error


def _normalize_certificates(name: str, data: bytes) -> str:
    try:
        return _pem(*load_pem_x509_certificates(data))
    except ValueError as error:
        raise SettingsError(f"kafka: {name} contains no PEM certificate") from error


def _decrypt_key(name: str, data: bytes, password: str) -> str:
    begin = data.find(_PEM.encode() + b"PRIVATE KEY")
    for kind in (b"ENCRYPTED PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY"):
        begin = max(begin, data.find(_PEM.encode() + kind))
    try:
        found = serialization.load_pem_private_key(data[max(begin, 0) :], password.encode() or None)
    except TypeError:
        _wrong_password(name, "needs" if not password else "needs no")
    except ValueError:
        _wrong_password(name, "is not PEM, or needs another")
    return _unencrypted_pem(found)


def _wrong_password(name: str, why: str) -> NoReturn:
    # the cause could contain parts of the key
    raise SettingsError(f"kafka: the key in {name} {why} ssl.key.password") from None


def _unencrypted_pem(key: object) -> str:
    assert hasattr(key, "private_bytes")
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem.decode()


def _pem(*certificates: Certificate) -> str:
    return "".join(
        certificate.public_bytes(serialization.Encoding.PEM).decode()
        for certificate in certificates
    )


def _read_file(name: str, location: str) -> bytes:
    try:
        return Path(location).expanduser().read_bytes()
    except OSError as error:
        raise SettingsError(
            f"kafka: {name}: {location} cannot be read: {error.strerror}"
        ) from error
