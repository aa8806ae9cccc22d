"""Sessions that were ended before their time: records that all servers read, and what they say.

A session that is renewed stays one session: who signs out ends it with all that it was renewed to.
"""

import json
from dataclasses import dataclass, field

FORMAT = 1
CONSOLE = "console"  # the identity of whoever can read an address that was printed
_ONE = "session/"  # the key of a session that was signed out of
_ALL = "sessions-of/"  # the key of all sessions of an identity that began before a time


@dataclass
class Ended:
    """What was ended, as far as it is known."""

    sessions: dict[str, float] = field(default_factory=dict)  # session: when it would have ended
    identities: dict[str, float] = field(default_factory=dict)  # until when theirs had to begin

    def take(self, key: bytes, value: bytes) -> None:
        """Note a record. What it does not say clearly counts as ended: nothing must come back."""
        name = key.decode(errors="replace")
        if name.startswith(_ONE):
            self.sessions[name.removeprefix(_ONE)] = _number(value, "until")
        elif name.startswith(_ALL):
            whose = name.removeprefix(_ALL)
            self.identities[whose] = max(self.before(whose), _number(value, "before"))

    def before(self, whose: str) -> float:
        """Sessions of an identity that began before this time have been ended."""
        return self.identities.get(whose, 0.0)

    def over(self, whose: str, session: str, began: float) -> bool:
        """Whether a session has been ended; one without a name is a right to begin one."""
        return session in self.sessions or began < self.before(whose)

    def end(self, session: str, until: float) -> None:
        """Note one that is ended here."""
        self.sessions[session] = until

    def forget(self, now: float) -> None:
        """Let go of sessions that would have ended by now anyway."""
        self.sessions = {one: until for one, until in self.sessions.items() if until > now}

    def join(self, other: "Ended") -> None:
        """Note what another one knows."""
        self.sessions |= other.sessions
        for whose, before in other.identities.items():
            self.identities[whose] = max(self.before(whose), before)


def one_ended(session: str, until: float) -> tuple[bytes, bytes]:
    """Key and value that end a session."""
    return f"{_ONE}{session}".encode(), _value("until", until)


def all_ended(whose: str, before: float) -> tuple[bytes, bytes]:
    """Key and value that end all sessions of an identity that began before a time."""
    return f"{_ALL}{whose}".encode(), _value("before", before)


def _value(name: str, at: float) -> bytes:
    return json.dumps({"format": FORMAT, name: at}).encode()


def _number(value: bytes, name: str) -> float:
    try:
        found = json.loads(value)[name]
        return float(found)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return float("inf")
