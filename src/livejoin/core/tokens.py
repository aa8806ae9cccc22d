"""Tokens: 256 bits that somebody keeps, and what livejoin keeps of them: a hash.

What roles there are, and which includes which.
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
PREFIX = "lj"  # so that a person, or a search for lost secrets, knows one when they see it


def role_includes(role: Role, needed: Role) -> bool:
    """Whether one who has a role may do what needs another."""
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True)
class Token:
    """A token as it is kept. Times are seconds since 1970."""

    id: str
    role: Role
    label: str
    hash: str
    made_at: int
    expires_at: int | None = None
    revoked: bool = False
    format: int = format_versions.TOKEN  # of a newer one nothing else is known, and its id

    def invalid_reason(self, now: float) -> str:
        """Why it does not count any more; empty: it does."""
        if why := format_versions.unsupported_reason("it", self.format, format_versions.TOKEN):
            return why
        if self.revoked:
            return "it was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "it has expired"
        return ""

    def matches(self, text: str) -> bool:
        """Whether this is the token. Takes the same time wherever they differ.

        Of a newer format that cannot be told, and why it does not count is.
        """
        return self.format != format_versions.TOKEN or hmac.compare_digest(
            self.hash, hash_token(text)
        )

    def as_revoked(self) -> "Token":
        """The same, revoked."""
        return replace(self, revoked=True)

    def to_json(self) -> bytes:
        """As it stands in Kafka, in the first format, which has no number."""
        fields = asdict(self)
        del fields["format"]
        return json.dumps(fields).encode()


def from_json(raw: bytes, key: str = "") -> Token | None:
    """A record of the topic by its key, the token's id; None where it is no token of ours.

    One of a newer format has no rights.
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
    """The token that a text is, whether or not it still counts."""
    prefix, _, rest = text.partition("_")
    token = known.get(rest.partition("_")[0]) if prefix == PREFIX else None
    return token if token is not None and token.matches(text) else None


def hash_token(text: str) -> str:
    """What is kept of a token. It is random enough that no salt or slow hash is needed."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
