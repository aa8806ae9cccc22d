"""Authentication: who a caller is, by token, session, sign-in code or WebSocket ticket."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from livejoin.core import tokens
from livejoin.core.tokens import Token
from livejoin.tables.auth.sessions_and_codes import (
    ANONYMOUS,
    CODE_LIFETIME_S,
    CONSOLE,
    TICKET_LIFETIME_S,
    Identity,
    OneTimeSecrets,
    Sessions,
    Unauthenticated,
)


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
class Identities:
    """Authenticates callers by each kind of credential."""

    tokens: TokenRegistry
    sessions: Sessions
    insecure: bool = False
    codes: OneTimeSecrets = field(default_factory=lambda: OneTimeSecrets(CODE_LIFETIME_S))
    tickets: OneTimeSecrets = field(default_factory=lambda: OneTimeSecrets(TICKET_LIFETIME_S))
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
