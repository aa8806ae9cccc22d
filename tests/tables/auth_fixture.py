"""A server that lets in whoever has a token, and the tokens for it; its audit is a list."""

import time
from dataclasses import dataclass, field
from typing import Any

from livejoin.core.names import Names
from livejoin.core.tokens import ROLES, Role, Token
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from livejoin.tables.auth.audit import Audit, Row
from livejoin.tables.auth.identity import Identities, Sessions, TokenRegistry
from livejoin.tables.auth.sign_outs import SignOutPublisher
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.http.server import Access


class RecordedAudit(Audit):
    """An audit whose rows can be looked at."""

    def __init__(self) -> None:
        super().__init__(Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("livejoin"))
        self.rows: list[Row] = []

    def append(self, one: Row) -> None:
        self.rows.append(one)


class RecordedSignOuts(SignOutPublisher):
    """Sign-outs that others were told of."""

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
    """Who may come in. `texts` has a token for every way to be refused or let in."""

    texts: dict[str, str] = field(default_factory=dict)
    audit: RecordedAudit = field(default_factory=RecordedAudit)
    sign_outs: RecordedSignOuts = field(default_factory=RecordedSignOuts)
    identities: Identities = field(
        default_factory=lambda: Identities(TokenRegistry({}, ""), Sessions(b"k" * 32))
    )

    def __post_init__(self) -> None:
        for role in ROLES:
            self.token(role, role)
        self.token("expired", "operator", life_s=-1)
        self.token("revoked", "operator")
        self.revoke("revoked")
        self.texts["wrong"] = f"{self.texts['operator'][:-4]}AAAA"

    def token(self, name: str, role: Role, life_s: float | None = None) -> Token:
        """One more token."""
        token, self.texts[name] = access_topics.new_token(role, name, time.time(), life_s)
        self._add(token)
        return token

    def revoke(self, name: str) -> None:
        known = self.identities.tokens.by_id or {}
        self._add(known[self.texts[name].split("_")[1]].as_revoked())

    def _add(self, token: Token) -> None:
        self.identities.tokens.by_id = {**(self.identities.tokens.by_id or {}), token.id: token}

    def access(self, **more: Any) -> Access:
        return Access(
            self.identities, self.audit, self.sign_outs, ConnectionLimits(1000, 1000, 1000), **more
        )

    def bearer(self, name: str) -> dict[str, str]:
        """The header that shows a token."""
        return {"Authorization": f"Bearer {self.texts[name]}"}
