"""Sessions that were ended before their time: records that all servers read, and what they say.

A session that is renewed stays one session: who signs out ends it with all that it was renewed to.
"""

import json
from dataclasses import dataclass, field

FORMAT = 1
CONSOLE = "console"  # the identity of whoever can read an address that was printed
_SESSION_KEY = "session/"  # the key of a session that was signed out of
_IDENTITY_KEY = "sessions-of/"  # the key of all sessions of an identity that began before a time


@dataclass
class EndedSessions:
    """What was ended, as far as it is known."""

    sessions: dict[str, float] = field(default_factory=dict)  # session: when it would have ended
    identities: dict[str, float] = field(default_factory=dict)  # until when theirs had to begin

    def apply_record(self, key: bytes, value: bytes) -> None:
        """Note a record. What it does not say clearly counts as ended: nothing must come back."""
        name = key.decode(errors="replace")
        if name.startswith(_SESSION_KEY):
            self.sessions[name.removeprefix(_SESSION_KEY)] = _decode(value, "until")
        elif name.startswith(_IDENTITY_KEY):
            whose = name.removeprefix(_IDENTITY_KEY)
            self.identities[whose] = max(self.ended_before(whose), _decode(value, "before"))

    def ended_before(self, whose: str) -> float:
        """Sessions of an identity that began before this time have been ended."""
        return self.identities.get(whose, 0.0)

    def has_ended(self, whose: str, session: str, began: float) -> bool:
        """Whether a session has been ended; one without a name is a right to begin one."""
        return session in self.sessions or began < self.ended_before(whose)

    def end(self, session: str, until: float) -> None:
        """Note one that is ended here."""
        self.sessions[session] = until

    def forget_expired(self, now: float) -> None:
        """Let go of sessions that would have ended by now anyway."""
        self.sessions = {one: until for one, until in self.sessions.items() if until > now}

    def merge(self, other: "EndedSessions") -> None:
        """Note what another one knows."""
        self.sessions |= other.sessions
        for whose, before in other.identities.items():
            self.identities[whose] = max(self.ended_before(whose), before)


def session_record(session: str, until: float) -> tuple[bytes, bytes]:
    """Key and value that end a session."""
    return f"{_SESSION_KEY}{session}".encode(), _encode("until", until)


def identity_record(whose: str, before: float) -> tuple[bytes, bytes]:
    """Key and value that end all sessions of an identity that began before a time."""
    return f"{_IDENTITY_KEY}{whose}".encode(), _encode("before", before)


def _encode(name: str, at: float) -> bytes:
    return json.dumps({"format": FORMAT, name: at}).encode()


def _decode(value: bytes, name: str) -> float:
    try:
        found = json.loads(value)[name]
        return float(found)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return float("inf")
