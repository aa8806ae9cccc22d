"""Identities of callers, and what they sign in with: sessions, one-time codes and tickets.

Sessions are signed, not stored, so they survive a restart of the server. Only the sessions that
were ended early are stored: sign-outs are published to the access topic, for all servers and those
started later. Codes sign a browser in and tickets open a WebSocket; both live in memory, for a
short time, and can be used once.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from livejoin.core import tokens
from livejoin.core.names import Names
from livejoin.core.tokens import EndedSessions, Role
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

SESSION_IDLE_S = 12 * 3600  # after the last renewal
SESSION_MAX_S = 30 * 86400  # after the sign-in, however often it is renewed
CONSOLE_MAX_S = 86400  # the same for the console identity, which has no token to revoke
CODE_LIFETIME_S = 300
TICKET_LIFETIME_S = 30

_KEY_BYTES = 32
_SECRET_BYTES = 32
_MAX_ISSUED = 10_000  # outstanding codes, and as many tickets
_PUBLISH_WAIT_S = 10.0
_DELIVERY_TIMEOUT_S = 300  # a sign-out is lost after a longer Kafka outage
_MAX_PENDING = 1000  # sign-outs kept until the topic exists

DeliveryCallback = Callable[[KafkaError | None, Message], None]


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
CONSOLE = Identity(tokens.CONSOLE, "operator")  # signed in by the printed URL


class Unauthenticated(Exception):
    """The caller's credentials are invalid; `retriable` if they cannot be checked yet."""

    def __init__(self, why: str, *, retriable: bool = False) -> None:
        super().__init__(why)
        self.retriable = retriable


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
        text = secrets.token_urlsafe(_SECRET_BYTES)
        self._issued[tokens.hash_token(text)] = now + self.lifetime_s, identity
        return text

    def redeem(self, text: str) -> Identity | None:
        """Return the identity of a valid secret, and invalidate it."""
        expires_at, identity = self._issued.pop(tokens.hash_token(text), (0.0, None))
        return identity if self.clock() < expires_at else None


class SignOutPublisher:
    """Writes sign-outs asynchronously. Used on the event loop only."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.access
        self._producer: Producer | None = None
        self._topic_ready = False
        self._pending: list[tuple[str, float]] = []

    def on_topic_ready(self) -> None:
        """Write the pending sign-outs, now that the topic exists."""
        self._topic_ready = True
        pending, self._pending = self._pending, []
        for session, expires_at in pending:
            self._write(session, expires_at, _log_failure)

    async def publish(self, session: str, expires_at: float) -> str:
        """Publish the end of a session; return why that failed so far, or an empty string."""
        if not self._topic_ready:  # a write could auto-create the topic with wrong settings
            self._pending = [*self._pending[1 - _MAX_PENDING :], (session, expires_at)]
            return f"topic {self._topic} does not exist yet: has an orchestrator been started?"
        outcome: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append(error.str() if error else "")
            _log_failure(error, message)

        try:
            producer = self._write(session, expires_at, delivered)
            await asyncio.to_thread(producer.flush, _PUBLISH_WAIT_S)
        except (KafkaException, BufferError) as error:
            return str(error)
        return outcome[0] if outcome else "Kafka does not answer"

    def _write(self, session: str, expires_at: float, delivered: DeliveryCallback) -> Producer:
        if self._producer is None:
            self._producer = self._kafka.producer(
                **{"message.timeout.ms": _DELIVERY_TIMEOUT_S * 1000}
            )
        key, value = tokens.session_record(session, expires_at)
        self._producer.produce(self._topic, value, key, on_delivery=delivered)
        return self._producer

    def close(self, limit_s: float) -> None:
        """Write everything that is left, within a time limit."""
        if self._producer is not None and self._producer.flush(limit_s):
            log.error("a sign-out was not published before shutdown", topic=self._topic)


def _log_failure(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        log.error("a sign-out could not be published to other servers", why=error.str())
