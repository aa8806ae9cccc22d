"""Who somebody is: by a token, by a session that a sign-in began, or by a ticket for one socket.

Sessions are signed, not stored: a server that is started again still knows them. What is stored is
which of them were ended before their time.
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
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from livejoin.core import ended_sessions as sessions
from livejoin.core import tokens
from livejoin.core.ended_sessions import Ended
from livejoin.core.tokens import Role, Token

log = structlog.get_logger()

SESSION_S = 12 * 3600  # unless it is renewed
LONGEST_S = 30 * 86400  # however often it is renewed
CONSOLE_S = 86400  # the same, of the identity that has no token to revoke
CODE_S = 300
TICKET_S = 30
_KEPT = 10_000  # codes and tickets
_KEY_BYTES = 32


@dataclass(frozen=True)
class Who:
    """Somebody who was let in, until some time."""

    id: str
    role: Role
    label: str = ""
    until: float | None = None
    session: str = ""  # by which they were let in; it stays the same when it is renewed
    began: float | None = None  # when they signed in for it

    @property
    def name(self) -> str:
        """For people: a label says more than an id."""
        return self.label or self.id


ANYBODY = Who("anybody", "operator")  # where no token is asked for
CONSOLE = Who(sessions.CONSOLE, "operator")  # who can read the address that was printed there


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


@dataclass(frozen=True)
class Session:
    """A session as a browser shows it. Times are seconds since 1970."""

    id: str  # whose it is
    name: str
    began: int  # with a sign-in
    until: int

    def who(self, role: Role, label: str = "", until: float | None = None) -> Who:
        """Whoever has it, maybe not for as long."""
        ends = self.until if until is None else min(self.until, until)
        return Who(self.id, role, label, ends, self.name, self.began)


class Sessions:
    """What a browser holds after a sign-in: a token's id, a session's name, two times; signed."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self.ended = Ended()

    def begin(self, who: Who) -> str:
        """A new session. One that another session begins lives no longer than that would have."""
        began = self._clock() if who.began is None else who.began
        return self._written(who.id, secrets.token_hex(8), int(began))

    def renew(self, who: Who) -> str:
        """The same session, in use until now."""
        assert who.began is not None, "nobody but a session's owner renews it"
        return self._written(who.id, who.session, int(who.began))

    def read(self, text: str) -> Session:
        """Take one that is shown apart; raises where it does not count any more."""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(self._signature(body).encode(), signature.encode()):
            raise NotLetIn("this session is not known")
        parts = body.split(".")
        if len(parts) != 5:
            raise NotLetIn("this session is over: it is of an older livejoin")
        began, used = int(parts[2]), int(parts[3])
        longest = CONSOLE_S if parts[0] == CONSOLE.id else LONGEST_S
        one = Session(parts[0], parts[1], began, min(used + SESSION_S, began + longest))
        if self._clock() >= one.until or self.ended.over(one.id, one.name, began):
            raise NotLetIn("this session is over")
        return one

    def over(self, who: Who) -> bool:
        """Whether the session by which somebody was let in has been ended."""
        return self.ended.over(
            who.id, who.session, self._clock() if who.began is None else who.began
        )

    def learn(self, ended: Ended) -> None:
        """Note what others have ended."""
        self.ended.join(ended)
        self.ended.forget(self._clock())

    def end(self, who: Who) -> tuple[str, float]:
        """Sign out: its name, and until when that has to be remembered."""
        until = (who.began or 0) + LONGEST_S
        self.ended.forget(self._clock())
        self.ended.end(who.session, until)
        return who.session, until

    def _written(self, whose: str, name: str, began: int) -> str:
        body = f"{whose}.{name}.{began}.{int(self._clock())}.{secrets.token_hex(4)}"
        return f"{body}.{self._signature(body)}"

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
    started: float = field(default_factory=time.time)

    def by_token(self, text: str) -> Who:
        """Somebody who shows a token."""
        return self.keyring.who(text, time.time())

    def by_session(self, text: str) -> Who:
        """Somebody who shows a session."""
        session = self.sessions.read(text)
        known, console = self.keyring.known, session.id == CONSOLE.id
        # the console's is needed where Kafka is away; nobody can have ended one that began here
        if known is None and not (console and session.began >= int(self.started)):
            raise NotLetIn(self.keyring.trouble, later=True)
        if console or known is None:
            return session.who(CONSOLE.role)
        token = known.get(session.id)
        why = "its token is gone" if token is None else token.trouble(time.time())
        if token is None or why:
            raise NotLetIn(f"this session is over: {why}")
        return session.who(token.role, token.label, token.expires_at)

    def still(self, who: Who) -> bool:
        """Whether somebody who was let in would be now."""
        return self.keyring.still(who, time.time()) and not self.sessions.over(who)

    def console_code(self) -> str:
        """A code for whoever can read what is printed now."""
        return self.codes.make(replace(CONSOLE, began=time.time()))


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
