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
from livejoin.core.ended_sessions import EndedSessions
from livejoin.core.tokens import Role, Token

log = structlog.get_logger()

SESSION_IDLE_S = 12 * 3600  # unless it is renewed
SESSION_MAX_S = 30 * 86400  # however often it is renewed
CONSOLE_MAX_S = 86400  # the same, of the identity that has no token to revoke
CODE_S = 300
TICKET_S = 30
_MAX_ISSUED = 10_000  # codes and tickets
_KEY_BYTES = 32


@dataclass(frozen=True)
class Identity:
    """Somebody who was let in, until some time."""

    id: str
    role: Role
    label: str = ""
    expires_at: float | None = None
    session: str = ""  # by which they were let in; it stays the same when it is renewed
    signed_in_at: float | None = None  # when they signed in for it

    @property
    def display_name(self) -> str:
        """For people: a label says more than an id."""
        return self.label or self.id


ANONYMOUS = Identity("anybody", "operator")  # where no token is asked for
CONSOLE = Identity(sessions.CONSOLE, "operator")  # who can read the address that was printed there


class Unauthenticated(Exception):
    """Whoever asks is not known; `later` where we could not know them yet."""

    def __init__(self, why: str, *, later: bool = False) -> None:
        super().__init__(why)
        self.retriable = later


@dataclass
class TokenRegistry:
    """The tokens as the topic has them. Nothing is known before it was read."""

    by_id: Mapping[str, Token] | None = None
    unavailable_reason: str = "the tokens have not been read yet"

    def authenticate(self, text: str, now: float) -> Identity:
        """Whose token this is, or why it does not count."""
        if self.by_id is None:
            raise Unauthenticated(self.unavailable_reason, later=True)
        token = tokens.find_token(text, self.by_id)
        if token is None:
            raise Unauthenticated("this token is not known")
        if why := token.invalid_reason(now):
            raise Unauthenticated(f"this token does not count: {why}")
        return Identity(token.id, token.role, token.label, token.expires_at)

    def still_valid(self, who: Identity, now: float) -> bool:
        """Whether one who was let in would be now. While the topic is unread, they stay."""
        if who.expires_at is not None and now >= who.expires_at:
            return False
        if who.id in (ANONYMOUS.id, CONSOLE.id) or self.by_id is None:
            return True
        token = self.by_id.get(who.id)
        return token is not None and not token.invalid_reason(now)


@dataclass
class OneTimeSecrets:
    """Secrets that live for a short time and are good for one use."""

    lifetime_s: float
    clock: Callable[[], float] = time.monotonic
    _issued: dict[str, tuple[float, Identity]] = field(default_factory=dict)

    def issue(self, who: Identity) -> str:
        """A new one, for somebody."""
        now = self.clock()
        while self._issued and (
            len(self._issued) >= _MAX_ISSUED or next(iter(self._issued.values()))[0] < now
        ):
            del self._issued[next(iter(self._issued))]  # the oldest come first
        text = secrets.token_urlsafe(_KEY_BYTES)
        self._issued[tokens.hash_token(text)] = now + self.lifetime_s, who
        return text

    def redeem(self, text: str) -> Identity | None:
        """Whose it is; never again."""
        until, who = self._issued.pop(tokens.hash_token(text), (0.0, None))
        return who if self.clock() < until else None


@dataclass(frozen=True)
class SessionClaims:
    """A session as a browser shows it. Times are seconds since 1970."""

    identity_id: str  # whose it is
    session_id: str
    signed_in_at: int  # with a sign-in
    expires_at: int

    def to_identity(self, role: Role, label: str = "", until: float | None = None) -> Identity:
        """Whoever has it, maybe not for as long."""
        ends = self.expires_at if until is None else min(self.expires_at, until)
        return Identity(self.identity_id, role, label, ends, self.session_id, self.signed_in_at)


class Sessions:
    """What a browser holds after a sign-in: a token's id, a session's name, two times; signed."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self.ended = EndedSessions()

    def start(self, who: Identity) -> str:
        """A new session. One that another session begins lives no longer than that would have."""
        began = self._clock() if who.signed_in_at is None else who.signed_in_at
        return self._encode(who.id, secrets.token_hex(8), int(began))

    def renew(self, who: Identity) -> str:
        """The same session, in use until now."""
        assert who.signed_in_at is not None, "nobody but a session's owner renews it"
        return self._encode(who.id, who.session, int(who.signed_in_at))

    def verify(self, text: str) -> SessionClaims:
        """Take one that is shown apart; raises where it does not count any more."""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(self._signature(body).encode(), signature.encode()):
            raise Unauthenticated("this session is not known")
        parts = body.split(".")
        if len(parts) != 5:
            raise Unauthenticated("this session is over: it is of an older livejoin")
        began, used = int(parts[2]), int(parts[3])
        longest = CONSOLE_MAX_S if parts[0] == CONSOLE.id else SESSION_MAX_S
        one = SessionClaims(parts[0], parts[1], began, min(used + SESSION_IDLE_S, began + longest))
        if self._clock() >= one.expires_at or self.ended.has_ended(
            one.identity_id, one.session_id, began
        ):
            raise Unauthenticated("this session is over")
        return one

    def has_ended(self, who: Identity) -> bool:
        """Whether the session by which somebody was let in has been ended."""
        return self.ended.has_ended(
            who.id, who.session, self._clock() if who.signed_in_at is None else who.signed_in_at
        )

    def add_ended(self, ended: EndedSessions) -> None:
        """Note what others have ended."""
        self.ended.merge(ended)
        self.ended.forget_expired(self._clock())

    def end(self, who: Identity) -> tuple[str, float]:
        """Sign out: its name, and until when that has to be remembered."""
        until = (who.signed_in_at or 0) + SESSION_MAX_S
        self.ended.forget_expired(self._clock())
        self.ended.end(who.session, until)
        return who.session, until

    def _encode(self, whose: str, name: str, began: int) -> str:
        body = f"{whose}.{name}.{began}.{int(self._clock())}.{secrets.token_hex(4)}"
        return f"{body}.{self._signature(body)}"

    def _signature(self, body: str) -> str:
        made = hmac.digest(self._key, body.encode(errors="surrogatepass"), hashlib.sha256)
        return base64.urlsafe_b64encode(made).decode().rstrip("=")


@dataclass
class Identities:
    """All ways in."""

    tokens: TokenRegistry
    sessions: Sessions
    insecure: bool = False
    codes: OneTimeSecrets = field(default_factory=lambda: OneTimeSecrets(CODE_S))
    tickets: OneTimeSecrets = field(default_factory=lambda: OneTimeSecrets(TICKET_S))
    server_started_at: float = field(default_factory=time.time)

    def by_token(self, text: str) -> Identity:
        """Somebody who shows a token."""
        return self.tokens.authenticate(text, time.time())

    def by_session(self, text: str) -> Identity:
        """Somebody who shows a session."""
        session = self.sessions.verify(text)
        known, console = self.tokens.by_id, session.identity_id == CONSOLE.id
        # the console's is needed where Kafka is away; nobody can have ended one that began here
        if known is None and not (console and session.signed_in_at >= int(self.server_started_at)):
            raise Unauthenticated(self.tokens.unavailable_reason, later=True)
        if console or known is None:
            return session.to_identity(CONSOLE.role)
        token = known.get(session.identity_id)
        why = "its token is gone" if token is None else token.invalid_reason(time.time())
        if token is None or why:
            raise Unauthenticated(f"this session is over: {why}")
        return session.to_identity(token.role, token.label, token.expires_at)

    def still_valid(self, who: Identity) -> bool:
        """Whether somebody who was let in would be now."""
        return self.tokens.still_valid(who, time.time()) and not self.sessions.has_ended(who)

    def console_code(self) -> str:
        """A code for whoever can read what is printed now."""
        return self.codes.issue(replace(CONSOLE, signed_in_at=time.time()))


def load_session_key(file: Path) -> bytes:
    """What sessions are signed with: made once, readable by this user alone."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _create_key_file(file)
        found = file.read_bytes()
    except OSError as error:
        log.warning("sessions end with this process", why=f"{file}: {error.strerror}")
        return secrets.token_bytes(_KEY_BYTES)
    if len(found) != _KEY_BYTES:
        log.warning("sessions end with this process", why=f"{file} holds no key: remove it")
        return secrets.token_bytes(_KEY_BYTES)
    return found


def _create_key_file(file: Path) -> None:
    """Whole or not at all, and the first of two that come at once stays."""
    with tempfile.NamedTemporaryFile(dir=file.parent) as whole:  # of mode 0600
        whole.write(secrets.token_bytes(_KEY_BYTES))
        whole.flush()
        with contextlib.suppress(FileExistsError):
            os.link(whole.name, file)
