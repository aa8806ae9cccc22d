"""Signatures by which livejoin's processes know what one of them has written to a shared topic.

Each process has a key of its own, and the public half stands in the topic of access, which nobody
but livejoin may write. So whoever can only read it cannot sign.
"""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_FORMAT = 1
_KEY_PREFIX = "signer/"
_MAX_SKEW_MS = 300_000  # between the signature and the record's own time, by two clocks
_MAX_SEEN = 10_000  # signatures that were seen


@dataclass(frozen=True)
class Signer:
    """Signs for this process."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    _key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)

    def key_record(self) -> tuple[bytes, bytes]:
        """Key and value that let others check what is signed here."""
        public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        value = json.dumps({"format": _FORMAT, "key": public})
        return f"{_KEY_PREFIX}{self.id}".encode(), value.encode()

    def sign(self, topic: str, by: bytes, value: bytes, at_ms: int) -> bytes:
        """The signature of a record, for its header."""
        made = base64.b64encode(self._key.sign(_signing_input(topic, by, value, at_ms))).decode()
        return f"{_FORMAT} {self.id} {at_ms} {made}".encode()


class SignedRecord(NamedTuple):
    """A record of which a signature says who wrote it."""

    topic: str
    offset: int
    at_ms: int
    by: bytes
    value: bytes


class SignatureVerifier:
    """Checks what is signed. It counts at one place: a copy is not from whom it was copied."""

    def __init__(self) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._seen: dict[bytes, int] = {}  # where

    def add_key(self, key: bytes, value: bytes) -> None:
        """Note a record of the topic of access; what is no key of a signer says nothing."""
        name = key.decode(errors="replace")
        if not name.startswith(_KEY_PREFIX):
            return
        try:
            raw = base64.b64decode(json.loads(value)["key"], validate=True)
            self._keys[name.removeprefix(_KEY_PREFIX)] = Ed25519PublicKey.from_public_bytes(raw)
        except (ValueError, TypeError, KeyError, RecursionError):
            self._keys.pop(name.removeprefix(_KEY_PREFIX), None)

    def knows_signer(self, signature: bytes) -> bool:
        """Whether the key of a signature is known, or it is none at all."""
        parts = _decode(signature)
        return parts is None or parts[0] in self._keys

    def verify(self, record: "SignedRecord", signature: bytes) -> bool:
        """Whether one of livejoin's processes wrote just this record, at about its time."""
        parts = _decode(signature)
        key = self._keys.get(parts[0]) if parts else None
        if parts is None or key is None or abs(parts[1] - record.at_ms) > _MAX_SKEW_MS:
            return False
        try:
            key.verify(parts[2], _signing_input(record.topic, record.by, record.value, parts[1]))
        except InvalidSignature:
            return False
        first = self._seen.setdefault(parts[2], record.offset)  # which may be read again
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return first == record.offset


def _signing_input(topic: str, by: bytes, value: bytes, at_ms: int) -> bytes:
    """All that must not be changed, in one form."""
    hashes = [hashlib.sha256(one).hexdigest() for one in (by, value)]
    return json.dumps(["livejoin control", _FORMAT, topic, at_ms, *hashes]).encode()


def _decode(signature: bytes) -> tuple[str, int, bytes] | None:
    """Who signed, when, and the signature itself."""
    try:
        form, signer, at, made = signature.decode("ascii").split(" ")
        if form != str(_FORMAT):
            return None
        return signer, int(at), base64.b64decode(made, validate=True)
    except ValueError:
        return None
