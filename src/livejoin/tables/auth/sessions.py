"""Sessions of signed-in callers: signed cookies, their lifetimes, the signing key.

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from livejoin.core.tokens import EndedSessions, Role
from livejoin.tables.auth.identity import CONSOLE, Identity, Unauthenticated

log = structlog.get_logger()

SESSION_IDLE_S = 12 * 3600  # after the last renewal

SESSION_MAX_S = 30 * 86400  # after the sign-in, however often it is renewed

CONSOLE_MAX_S = 86400  # the same for the console identity, which has no token to revoke

_KEY_BYTES = 32


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
