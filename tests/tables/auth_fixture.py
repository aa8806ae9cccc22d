"""Access control with known tokens, and with audit and sign-outs recorded in lists."""

import time
from dataclasses import dataclass, field
from typing import Any

from livejoin.core.names import Names
from livejoin.core.tokens import ROLES, Role, Token
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from livejoin.tables.auth.audit import Audit, Row
from livejoin.tables.auth.authentication import Identities, TokenRegistry
from livejoin.tables.auth.sessions_and_codes import Sessions, SignOutPublisher
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.http.server import Access


class RecordedAudit(Audit):
    """An audit that keeps its rows in a list."""

    def __init__(self) -> None:
        super().__init__(Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("livejoin"))
        self.rows: list[Row] = []

    def append(self, one: Row) -> None:
        self.rows.append(one)


class RecordedSignOuts(SignOutPublisher):
    """A publisher that keeps the ended sessions in a list; `why` is its failure."""

    def __init__(self) -> None:
        super().__init__(Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("livejoin"))
        self.sessions: list[str] = []
        self.why = ""

    async def publish(self, session: str, until: float) -> str:
        assert until > time.time()
        self.sessions.append(session)
        return self.why


@dataclass
class AuthFixture:
    """Access control of a test server. `texts` holds a token of every kind, valid or not."""

    texts: dict[str, str] = field(default_factory=dict)
    audit: RecordedAudit = field(default_factory=RecordedAudit)
    sign_outs: RecordedSignOuts = field(default_factory=RecordedSignOuts)
    identities: Identities = field(
        default_factory=lambda: Identities(TokenRegistry({}, ""), Sessions(b"k" * 32))
    )

    def __post_init__(self) -> None:
        for role in ROLES:
            self.token(role, role)
        self.token("expired", "operator", lifetime_s=-1)
        self.token("revoked", "operator")
        self.revoke("revoked")
        self.texts["wrong"] = f"{self.texts['operator'][:-4]}AAAA"

    def token(self, name: str, role: Role, lifetime_s: float | None = None) -> Token:
        """Add a token."""
        token, self.texts[name] = access_topics.new_token(role, name, time.time(), lifetime_s)
        self._add(token)
        return token

    def revoke(self, name: str) -> None:
        tokens = self.identities.tokens.by_id or {}
        self._add(tokens[self.texts[name].split("_")[1]].as_revoked())

    def _add(self, token: Token) -> None:
        self.identities.tokens.by_id = {**(self.identities.tokens.by_id or {}), token.id: token}

    def access(self, **options: Any) -> Access:
        return Access(
            self.identities,
            self.audit,
            self.sign_outs,
            ConnectionLimits(1000, 1000, 1000),
            **options,
        )

    def bearer(self, name: str) -> dict[str, str]:
        """Return the Authorization header of a token."""
        return {"Authorization": f"Bearer {self.texts[name]}"}
