"""Signatures on records in shared topics: they prove that a livejoin process wrote a record.

Each process has its own key pair. The public keys are in the access topic, which only livejoin is
authorized to write; read access to it is not enough to sign.
"""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from livejoin.core.json_object import parse_object

_FORMAT = 1
_KEY_PREFIX = "signer/"
_MAX_SKEW_MS = 300_000  # between the times of signature and record, from two clocks
_MAX_SEEN = 10_000  # signatures that are remembered


@dataclass(frozen=True)
class Signer:
    """Signs records of this process."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    _key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)

    def key_record(self) -> tuple[bytes, bytes]:
        """Key and value of the access record that publishes this process's public key."""
        public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        value = json.dumps({"format": _FORMAT, "key": public})
        return f"{_KEY_PREFIX}{self.id}".encode(), value.encode()

    def sign(self, topic: str, by: bytes, value: bytes, at_ms: int) -> bytes:
        """The signature of a record, for its header."""
        encoded = base64.b64encode(self._key.sign(_signing_input(topic, by, value, at_ms))).decode()
        return f"{_FORMAT} {self.id} {at_ms} {encoded}".encode()


class SignedRecord(NamedTuple):
    """The parts of a record that a signature covers, and its position."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    by: bytes
    value: bytes


class SignatureVerifier:
    """Verifies signatures. Each is valid at one position, so copies of a record are refused."""

    def __init__(self) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._seen: dict[bytes, tuple[int, int]] = {}  # signature: partition and offset

    def add_key(self, key: bytes, value: bytes) -> None:
        """Take a record of the access topic; those that are no public key are ignored."""
        name = key.decode(errors="replace")
        if not name.startswith(_KEY_PREFIX):
            return
        try:
            raw = base64.b64decode((parse_object(value) or {})["key"], validate=True)
            self._keys[name.removeprefix(_KEY_PREFIX)] = Ed25519PublicKey.from_public_bytes(raw)
        except (ValueError, TypeError, KeyError):
            self._keys.pop(name.removeprefix(_KEY_PREFIX), None)

    def knows_signer(self, signature: bytes) -> bool:
        """Whether the signature's key is known. A malformed signature needs none."""
        parts = _decode(signature)
        return parts is None or parts[0] in self._keys

    def verify(self, record: "SignedRecord", signature: bytes) -> bool:
        """Whether a livejoin process wrote this record, at about its time."""
        parts = _decode(signature)
        key = self._keys.get(parts[0]) if parts else None
        if parts is None or key is None or abs(parts[1] - record.at_ms) > _MAX_SKEW_MS:
            return False
        try:
            key.verify(parts[2], _signing_input(record.topic, record.by, record.value, parts[1]))
        except InvalidSignature:
            return False
        position = record.partition, record.offset
        first = self._seen.setdefault(parts[2], position)  # it may be read again
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return first == position


def _signing_input(topic: str, by: bytes, value: bytes, at_ms: int) -> bytes:
    """The bytes that are signed."""
    hashes = [hashlib.sha256(part).hexdigest() for part in (by, value)]
    return json.dumps(["livejoin control", _FORMAT, topic, at_ms, *hashes]).encode()


def _decode(signature: bytes) -> tuple[str, int, bytes] | None:
    """Signer id, time and signature; None if malformed."""
    try:
        version, signer, at, encoded = signature.decode("ascii").split(" ")
        if version != str(_FORMAT):
            return None
        return signer, int(at), base64.b64decode(encoded, validate=True)
    except ValueError:
        return None
