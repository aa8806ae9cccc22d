"""Sessions that were ended early: the records of the access topic, read by all servers.

A renewed session keeps its identity: signing out ends it with all of its renewals.
"""

import json
from dataclasses import dataclass, field

FORMAT = 1
CONSOLE = "console"  # identity of sign-ins by the printed address
_SESSION_KEY = "session/"  # key prefix: one session was signed out
_IDENTITY_KEY = "sessions-of/"  # key prefix: all sessions of an identity that began before a time


@dataclass
class EndedSessions:
    """The sessions known to be ended."""

    sessions: dict[str, float] = field(default_factory=dict)  # when each would have expired
    # sessions of an identity that began before this time are ended
    identities: dict[str, float] = field(default_factory=dict)

    def apply_record(self, key: bytes, value: bytes) -> None:
        """Apply a record. An unreadable time counts as infinite, so no session is revived."""
        name = key.decode(errors="replace")
        if name.startswith(_SESSION_KEY):
            self.sessions[name.removeprefix(_SESSION_KEY)] = _decode(value, "until")
        elif name.startswith(_IDENTITY_KEY):
            identity = name.removeprefix(_IDENTITY_KEY)
            self.identities[identity] = max(self.ended_before(identity), _decode(value, "before"))

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
    return f"{_SESSION_KEY}{session}".encode(), _encode("until", until)


def identity_record(identity: str, before: float) -> tuple[bytes, bytes]:
    """Key and value of a record that ends all earlier sessions of an identity."""
    return f"{_IDENTITY_KEY}{identity}".encode(), _encode("before", before)


def _encode(name: str, at: float) -> bytes:
    return json.dumps({"format": FORMAT, name: at}).encode()


def _decode(value: bytes, name: str) -> float:
    try:
        return float(json.loads(value)[name])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return float("inf")
