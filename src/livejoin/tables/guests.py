"""Who somebody is: by a token, by a session that a sign-in began, or by a ticket for one socket.

Sessions are signed, not stored: a server that is started again still knows them.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from livejoin.core import tokens
from livejoin.core.tokens import Role, Token

log = structlog.get_logger()

SESSION_S = 12 * 3600
CODE_S = 300
TICKET_S = 30
_KEPT = 10_000  # codes, tickets and sessions that have ended
_KEY_BYTES = 32


@dataclass(frozen=True)
class Who:
    """Somebody who was let in, until some time."""

    id: str
    role: Role
    label: str = ""
    until: float | None = None

    @property
    def name(self) -> str:
        """For people: a label says more than an id."""
        return self.label or self.id


ANYBODY = Who("anybody", "operator")  # where no token is asked for
CONSOLE = Who("console", "operator")  # who can read the address that was printed there


class NotLetIn(Exception):
    """Whoever asks is not known; `later` where we could not know them yet."""

    def __init__(self, why: str, *, later: bool = False) -> None:
        super().__init__(why)
        self.later = later


@dataclass
class Keyring:
    """The tokens as the topic has them. Nothing is known before it was read."""

    known: Mapping[str, Token] | None = None
    trouble: str = "the tokens have not been read yet"

    def who(self, text: str, now: float) -> Who:
        """Whose token this is, or why it does not count."""
        if self.known is None:
            raise NotLetIn(self.trouble, later=True)
        token = tokens.found(text, self.known)
        if token is None:
            raise NotLetIn("this token is not known")
        if why := token.trouble(now):
            raise NotLetIn(f"this token does not count: {why}")
        return Who(token.id, token.role, token.label, token.expires_at)

    def still(self, who: Who, now: float) -> bool:
        """Whether one who was let in would be now. While the topic is unread, they stay."""
        if who.until is not None and now >= who.until:
            return False
        if who.id in (ANYBODY.id, CONSOLE.id) or self.known is None:
            return True
        token = self.known.get(who.id)
        return token is not None and not token.trouble(now)


@dataclass
class OneUse:
    """Secrets that live for a short time and are good for one use."""

    life_s: float
    clock: Callable[[], float] = time.monotonic
    _out: dict[str, tuple[float, Who]] = field(default_factory=dict)

    def make(self, who: Who) -> str:
        """A new one, for somebody."""
        now = self.clock()
        while self._out and (len(self._out) >= _KEPT or next(iter(self._out.values()))[0] < now):
            del self._out[next(iter(self._out))]  # the oldest come first
        text = secrets.token_urlsafe(_KEY_BYTES)
        self._out[tokens.hashed(text)] = now + self.life_s, who
        return text

    def take(self, text: str) -> Who | None:
        """Whose it is; never again."""
        until, who = self._out.pop(tokens.hashed(text), (0.0, None))
        return who if self.clock() < until else None


class Sessions:
    """What a browser holds after a sign-in: a token's id and a time, signed."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self._over: dict[str, float] = {}  # signed out, until they would have expired

    def begin(self, who: Who) -> str:
        """A new session, or the next one of a session that is in use."""
        body = f"{who.id}.{int(self._clock())}.{secrets.token_hex(8)}"
        return f"{body}.{self._signature(body)}"

    def read(self, text: str) -> tuple[str, float]:
        """Whose it is, by id, and until when."""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(self._signature(body).encode(), signature.encode()):
            raise NotLetIn("this session is not known")
        token_id, began, _ = body.split(".")
        until = int(began) + SESSION_S
        if self._clock() >= until or text in self._over:
            raise NotLetIn("this session is over")
        return token_id, until

    def end(self, text: str) -> None:
        """Sign out."""
        now = self._clock()
        while self._over and (len(self._over) >= _KEPT or next(iter(self._over.values())) < now):
            del self._over[next(iter(self._over))]
        self._over[text] = now + SESSION_S

    def _signature(self, body: str) -> str:
        made = hmac.digest(self._key, body.encode(errors="surrogatepass"), hashlib.sha256)
        return base64.urlsafe_b64encode(made).decode().rstrip("=")


@dataclass
class Guests:
    """All ways in."""

    keyring: Keyring
    sessions: Sessions
    insecure: bool = False
    codes: OneUse = field(default_factory=lambda: OneUse(CODE_S))
    tickets: OneUse = field(default_factory=lambda: OneUse(TICKET_S))

    def by_token(self, text: str) -> Who:
        """Somebody who shows a token."""
        return self.keyring.who(text, time.time())

    def by_session(self, text: str) -> Who:
        """Somebody who shows a session."""
        token_id, until = self.sessions.read(text)
        if token_id == CONSOLE.id:
            return Who(CONSOLE.id, CONSOLE.role, until=until)
        known = self.keyring.known
        if known is None:
            raise NotLetIn(self.keyring.trouble, later=True)
        token = known.get(token_id)
        why = "its token is gone" if token is None else token.trouble(time.time())
        if token is None or why:
            raise NotLetIn(f"this session is over: {why}")
        ends = until if token.expires_at is None else min(until, token.expires_at)
        return Who(token.id, token.role, token.label, ends)

    def still(self, who: Who) -> bool:
        """Whether somebody who was let in would be now."""
        return self.keyring.still(who, time.time())


def key(file: Path) -> bytes:
    """What sessions are signed with: made once, readable by this user alone."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _make(file)
        found = file.read_bytes()
    except OSError as error:
        log.warning("sessions end with this process", why=f"{file}: {error.strerror}")
        return secrets.token_bytes(_KEY_BYTES)
    if len(found) != _KEY_BYTES:
        log.warning("sessions end with this process", why=f"{file} holds no key: remove it")
        return secrets.token_bytes(_KEY_BYTES)
    return found


def _make(file: Path) -> None:
    """Whole or not at all, and the first of two that come at once stays."""
    with tempfile.NamedTemporaryFile(dir=file.parent) as whole:  # of mode 0600
        whole.write(secrets.token_bytes(_KEY_BYTES))
        whole.flush()
        with contextlib.suppress(FileExistsError):
            os.link(whole.name, file)
