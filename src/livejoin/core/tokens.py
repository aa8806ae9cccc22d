"""Access tokens and roles. A token has 256 random bits; livejoin stores only its hash.

Field names are JSON keys of the tokens topic.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from livejoin.core import format_versions

Role = Literal["viewer", "operator"]
ROLES: tuple[Role, ...] = ("viewer", "operator")  # each includes those before it
PREFIX = "lj"  # recognizable by people and secret scanners


def role_includes(role: Role, needed: Role) -> bool:
    """Whether a role includes the rights of another."""
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True)
class Token:
    """A stored token. Times are Unix seconds."""

    id: str
    role: Role
    label: str
    hash: str
    made_at: int
    expires_at: int | None = None
    revoked: bool = False
    format: int = format_versions.TOKEN  # if newer than ours, only the id is known

    def invalid_reason(self, now: float) -> str:
        """Why the token is not valid; empty if it is."""
        if why := format_versions.unsupported_reason("it", self.format, format_versions.TOKEN):
            return why
        if self.revoked:
            return "it was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "it has expired"
        return ""

    def matches(self, text: str) -> bool:
        """Whether a text is this token, compared in constant time.

        A token of a newer format matches any text: it is then rejected with the reason.
        """
        return self.format != format_versions.TOKEN or hmac.compare_digest(
            self.hash, hash_token(text)
        )

    def as_revoked(self) -> "Token":
        """A revoked copy."""
        return replace(self, revoked=True)

    def to_json(self) -> bytes:
        """Encode for Kafka in the first format, which has no number."""
        fields = asdict(self)
        del fields["format"]
        return json.dumps(fields).encode()


def from_json(raw: bytes, key: str = "") -> Token | None:
    """Decode a record whose key is the token id; None if it is not a token.

    A token of a newer format has no rights.
    """
    try:
        found = json.loads(raw)
        number = found.get("format") if isinstance(found, dict) else None
        if format_versions.unsupported_reason("it", number, format_versions.TOKEN):
            known = number if isinstance(number, int) else 0
            return Token(key, ROLES[0], "", "", 0, format=known)
        token = Token(**found)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (token.id, token.label, token.hash)
    fine = token.role in ROLES and all(isinstance(text, str) for text in texts)
    times = isinstance(token.made_at, int) and isinstance(token.expires_at, int | None)
    return token if fine and times and isinstance(token.revoked, bool) else None


def find_token(text: str, known: Mapping[str, Token]) -> Token | None:
    """The token that a text belongs to, whether or not it is still valid."""
    prefix, _, rest = text.partition("_")
    token = known.get(rest.partition("_")[0]) if prefix == PREFIX else None
    return token if token is not None and token.matches(text) else None


def hash_token(text: str) -> str:
    """The stored hash of a token. A random token needs no salt or slow hash."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
