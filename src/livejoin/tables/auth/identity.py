"""Authentication by token, by session, by one-time sign-in code or by WebSocket ticket.

Sessions are signed, not stored, so they survive a restart of the server. Only the sessions that
were ended early are stored.
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

from livejoin.core import ended_sessions, tokens
from livejoin.core.ended_sessions import EndedSessions
from livejoin.core.tokens import Role, Token

log = structlog.get_logger()

SESSION_IDLE_S = 12 * 3600  # after the last renewal
SESSION_MAX_S = 30 * 86400  # after the sign-in, however often it is renewed
CONSOLE_MAX_S = 86400  # the same for the console identity, which has no token to revoke
CODE_S = 300
TICKET_S = 30
_MAX_ISSUED = 10_000  # outstanding codes, and as many tickets
_KEY_BYTES = 32


@dataclass(frozen=True)
class Identity:
    """An authenticated caller. Times are seconds since 1970."""

    id: str
    role: Role
    label: str = ""
    expires_at: float | None = None
    session: str = ""  # id of the session, if any; renewals keep it
    signed_in_at: float | None = None  # start of that session

    @property
    def display_name(self) -> str:
        """Return the label, or the id where there is none."""
        return self.label or self.id


ANONYMOUS = Identity("anybody", "operator")  # every caller of a server without authentication
CONSOLE = Identity(ended_sessions.CONSOLE, "operator")  # signed in by the printed URL


class Unauthenticated(Exception):
    """The caller's credentials are invalid; `retriable` if they cannot be checked yet."""

    def __init__(self, why: str, *, retriable: bool = False) -> None:
        super().__init__(why)
        self.retriable = retriable


@dataclass
class TokenRegistry:
    """The tokens read from the topic; `by_id` is None until it has been read."""

    by_id: Mapping[str, Token] | None = None
    unavailable_reason: str = "the tokens have not been loaded yet"

    def authenticate(self, text: str, now: float) -> Identity:
        """Return the identity of a valid token."""
        if self.by_id is None:
            raise Unauthenticated(self.unavailable_reason, retriable=True)
        token = tokens.find_token(text, self.by_id)
        if token is None:
            raise Unauthenticated("this token is unknown or revoked")
        if why := token.invalid_reason(now):
            raise Unauthenticated(f"this token is not valid: {why}")
        return Identity(token.id, token.role, token.label, token.expires_at)

    def still_valid(self, identity: Identity, now: float) -> bool:
        """Whether an identity's token is still valid; true while the topic is unread."""
        if identity.expires_at is not None and now >= identity.expires_at:
            return False
        if identity.id in (ANONYMOUS.id, CONSOLE.id) or self.by_id is None:
            return True
        token = self.by_id.get(identity.id)
        return token is not None and not token.invalid_reason(now)


@dataclass
class OneTimeSecrets:
    """Short-lived secrets that can be used once."""

    lifetime_s: float
    clock: Callable[[], float] = time.monotonic
    _issued: dict[str, tuple[float, Identity]] = field(default_factory=dict)

    def issue(self, identity: Identity) -> str:
        """Issue a secret for an identity."""
        now = self.clock()
        while self._issued and (
            len(self._issued) >= _MAX_ISSUED or next(iter(self._issued.values()))[0] < now
        ):
            del self._issued[next(iter(self._issued))]  # in order of expiry
        text = secrets.token_urlsafe(_KEY_BYTES)
        self._issued[tokens.hash_token(text)] = now + self.lifetime_s, identity
        return text

    def redeem(self, text: str) -> Identity | None:
        """Return the identity of a valid secret, and invalidate it."""
        expires_at, identity = self._issued.pop(tokens.hash_token(text), (0.0, None))
        return identity if self.clock() < expires_at else None


@dataclass(frozen=True)
class SessionClaims:
    """The content of a session cookie. Times are seconds since 1970."""

    identity_id: str
    session_id: str
    signed_in_at: int
    expires_at: int

    def to_identity(
        self, role: Role, label: str = "", max_expires_at: float | None = None
    ) -> Identity:
        """Return the identity of this session, which may expire earlier than the session."""
        expires_at: float = self.expires_at
        if max_expires_at is not None:
            expires_at = min(expires_at, max_expires_at)
        return Identity(
            self.identity_id, role, label, expires_at, self.session_id, self.signed_in_at
        )


class Sessions:
    """Signs and verifies session cookies: identity, session id, sign-in time, last use."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self.ended = EndedSessions()

    def start(self, identity: Identity) -> str:
        """Start a session. One started from a session keeps that session's sign-in time."""
        signed_in_at = self._clock() if identity.signed_in_at is None else identity.signed_in_at
        return self._encode(identity.id, secrets.token_hex(8), int(signed_in_at))

    def renew(self, identity: Identity) -> str:
        """Renew a session, with the current time as its last use."""
        assert identity.signed_in_at is not None, "only a session can be renewed"
        return self._encode(identity.id, identity.session, int(identity.signed_in_at))

    def verify(self, text: str) -> SessionClaims:
        """Return the claims of a session cookie; raises if it is forged, expired or ended."""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(self._signature(body).encode(), signature.encode()):
            raise Unauthenticated("this session is unknown")
        parts = body.split(".")
        if len(parts) != 5:
            raise Unauthenticated("this session has ended: it was issued by an older livejoin")
        signed_in_at, last_used_at = int(parts[2]), int(parts[3])
        max_age_s = CONSOLE_MAX_S if parts[0] == CONSOLE.id else SESSION_MAX_S
        claims = SessionClaims(
            parts[0],
            parts[1],
            signed_in_at,
            min(last_used_at + SESSION_IDLE_S, signed_in_at + max_age_s),
        )
        if self._clock() >= claims.expires_at or self.ended.has_ended(
            claims.identity_id, claims.session_id, signed_in_at
        ):
            raise Unauthenticated("this session has ended")
        return claims

    def has_ended(self, identity: Identity) -> bool:
        """Whether the session of an identity has been ended."""
        return self.ended.has_ended(
            identity.id,
            identity.session,
            self._clock() if identity.signed_in_at is None else identity.signed_in_at,
        )

    def add_ended(self, ended: EndedSessions) -> None:
        """Add sessions that were ended on other servers."""
        self.ended.merge(ended)
        self.ended.forget_expired(self._clock())

    def end(self, identity: Identity) -> tuple[str, float]:
        """End a session; return its id and when it would have expired at the latest."""
        expires_at = (identity.signed_in_at or 0) + SESSION_MAX_S
        self.ended.forget_expired(self._clock())
        self.ended.end(identity.session, expires_at)
        return identity.session, expires_at

    def _encode(self, identity_id: str, session_id: str, signed_in_at: int) -> str:
        body = (
            f"{identity_id}.{session_id}.{signed_in_at}.{int(self._clock())}.{secrets.token_hex(4)}"
        )
        return f"{body}.{self._signature(body)}"

    def _signature(self, body: str) -> str:
        digest = hmac.digest(self._key, body.encode(errors="surrogatepass"), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass
class Identities:
    """Authenticates callers by each kind of credential."""

    tokens: TokenRegistry
    sessions: Sessions
    insecure: bool = False
    codes: OneTimeSecrets = field(default_factory=lambda: OneTimeSecrets(CODE_S))
    tickets: OneTimeSecrets = field(default_factory=lambda: OneTimeSecrets(TICKET_S))
    server_started_at: float = field(default_factory=time.time)

    def by_token(self, text: str) -> Identity:
        """Return the identity of a token."""
        return self.tokens.authenticate(text, time.time())

    def by_session(self, text: str) -> Identity:
        """Return the identity of a session cookie."""
        session = self.sessions.verify(text)
        by_id, console = self.tokens.by_id, session.identity_id == CONSOLE.id
        # without Kafka the console must still work; a session of this server ends only here
        if by_id is None and not (console and session.signed_in_at >= int(self.server_started_at)):
            raise Unauthenticated(self.tokens.unavailable_reason, retriable=True)
        if console or by_id is None:
            return session.to_identity(CONSOLE.role)
        token = by_id.get(session.identity_id)
        why = "its token was removed" if token is None else token.invalid_reason(time.time())
        if token is None or why:
            raise Unauthenticated(f"this session has ended: {why}")
        return session.to_identity(token.role, token.label, token.expires_at)

    def still_valid(self, identity: Identity) -> bool:
        """Whether an identity's token and session are still valid."""
        return self.tokens.still_valid(identity, time.time()) and not self.sessions.has_ended(
            identity
        )

    def console_code(self) -> str:
        """Issue the sign-in code for the URL that is printed at startup."""
        return self.codes.issue(replace(CONSOLE, signed_in_at=time.time()))


def load_session_key(file: Path) -> bytes:
    """Load the session signing key; created once, readable by this user only."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _create_key_file(file)
        key = file.read_bytes()
    except OSError as error:
        log.warning("sessions will end with this process", why=f"{file}: {error.strerror}")
        return secrets.token_bytes(_KEY_BYTES)
    if len(key) != _KEY_BYTES:
        log.warning(
            "sessions will end with this process", why=f"{file} is not a valid key: remove it"
        )
        return secrets.token_bytes(_KEY_BYTES)
    return key


def _create_key_file(file: Path) -> None:
    """Create the key file atomically; of two concurrent processes the first one wins."""
    with tempfile.NamedTemporaryFile(dir=file.parent) as temporary:  # has mode 0600
        temporary.write(secrets.token_bytes(_KEY_BYTES))
        temporary.flush()
        with contextlib.suppress(FileExistsError):
            os.link(temporary.name, file)
