"""Sign-in codes and WebSocket tickets: short-lived secrets that can be used once."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from livejoin.core import tokens
from livejoin.tables.auth.identity import Identity

CODE_LIFETIME_S = 300

TICKET_LIFETIME_S = 30

_MAX_ISSUED = 10_000  # outstanding codes, and as many tickets

_SECRET_BYTES = 32


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
