"""Access tokens, their roles, and the sessions that were ended early.

A token has 256 random bits; livejoin stores only its hash. Its field names are JSON keys of the
tokens topic. Ended sessions are the records of the access topic, read by all servers.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from livejoin.core import format_versions
from livejoin.core.json_object import parse_object

Role = Literal["viewer", "operator"]
ROLES: tuple[Role, ...] = ("viewer", "operator")  # each includes those before it
TokenState = Literal["valid", "revoked", "expired", "unsupported"]  # the last: a newer format
PREFIX = "lj"  # recognizable by people and secret scanners

CONSOLE = "console"  # identity of sign-ins by the printed address
_SESSION_KEY = "session/"  # key prefix: one session was signed out
_IDENTITY_KEY = "sessions-of/"  # key prefix: all sessions of an identity that began before a time
_ENDED_FORMAT = 1


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

    def state(self, now: float) -> TokenState:
        """Whether the token is valid, and why not, in one word."""
        if self._unsupported_reason:
            return "unsupported"
        if self.revoked:
            return "revoked"
        is_over = self.expires_at is not None and now >= self.expires_at
        return "expired" if is_over else "valid"

    def invalid_reason(self, now: float) -> str:
        """Why the token is not valid; empty if it is."""
        texts: dict[TokenState, str] = {
            "valid": "",
            "revoked": "it was revoked",
            "expired": "it has expired",
            "unsupported": self._unsupported_reason,
        }
        return texts[self.state(now)]

    @property
    def _unsupported_reason(self) -> str:
        return format_versions.unsupported_reason("it", self.format, format_versions.TOKEN)

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
    found = parse_object(raw)
    if found is None:
        return None
    try:
        number = found.get("format")
        if format_versions.unsupported_reason("it", number, format_versions.TOKEN):
            known = number if isinstance(number, int) else 0
            return Token(key, ROLES[0], "", "", 0, format=known)
        token = Token(**found)
    except TypeError:  # other fields than a token's
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


@dataclass
class EndedSessions:
    """The sessions known to be ended.

    A renewed session keeps its identity: signing out ends it with all of its renewals.
    """

    sessions: dict[str, float] = field(default_factory=dict)  # when each would have expired
    # sessions of an identity that began before this time are ended
    identities: dict[str, float] = field(default_factory=dict)

    def apply_record(self, key: bytes, value: bytes) -> None:
        """Apply a record. An unreadable time counts as infinite, so no session is revived."""
        name = key.decode(errors="replace")
        if name.startswith(_SESSION_KEY):
            self.sessions[name.removeprefix(_SESSION_KEY)] = _decode_time(value, "until")
        elif name.startswith(_IDENTITY_KEY):
            identity = name.removeprefix(_IDENTITY_KEY)
            self.identities[identity] = max(
                self.ended_before(identity), _decode_time(value, "before")
            )

    def ended_before(self, identity: str) -> float:
        """Sessions of an identity that began before this time are ended."""
        return self.identities.get(identity, 0.0)

    def has_ended(self, identity: str, session: str, began: float) -> bool:
        """Whether a session was ended; one without a name is a permission to start one."""
        return session in self.sessions or began < self.ended_before(identity)

    def end(self, session: str, until: float) -> None:
        """End a session."""
        self.sessions[session] = until

    def forget_expired(self, now: float) -> None:
        """Forget sessions that would have expired by now."""
        self.sessions = {name: until for name, until in self.sessions.items() if until > now}

    def merge(self, other: "EndedSessions") -> None:
        """Add everything that another one knows."""
        self.sessions |= other.sessions
        for identity, before in other.identities.items():
            self.identities[identity] = max(self.ended_before(identity), before)


def session_record(session: str, until: float) -> tuple[bytes, bytes]:
    """Key and value of a record that ends a session."""
    return f"{_SESSION_KEY}{session}".encode(), _encode_time("until", until)


def identity_record(identity: str, before: float) -> tuple[bytes, bytes]:
    """Key and value of a record that ends all earlier sessions of an identity."""
    return f"{_IDENTITY_KEY}{identity}".encode(), _encode_time("before", before)


def _encode_time(name: str, at: float) -> bytes:
    return json.dumps({"format": _ENDED_FORMAT, name: at}).encode()


def _decode_time(value: bytes, name: str) -> float:
    try:
        return float((parse_object(value) or {})[name])
    except (ValueError, TypeError, KeyError, OverflowError):
        return float("inf")
