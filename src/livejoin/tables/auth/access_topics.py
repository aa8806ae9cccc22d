"""The topics of tokens, audit and access: made, read whole, written. Who follows is elsewhere."""

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from livejoin.core import ended_sessions, format_versions, tokens
from livejoin.core.names import Names
from livejoin.core.tokens import Token
from livejoin.errors import AskError, NewerFormat
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.reading import read_to_end
from livejoin.kafka.writing import write

_WRITE_S = 10
_SECRET_BYTES = 32
_AUDIT_RETENTION_BYTES = 64 << 20  # 10,000 rows are a few MB
_ACCESS_RETENTION_S = 45 * 86400  # no session lives as long, and who signs says so every day


def create_topics(kafka: Kafka, names: Names) -> None:
    """Make the topics unless they are there."""
    forgets = {"cleanup.policy": "compact,delete", "retention.ms": str(_ACCESS_RETENTION_S * 1000)}
    kafka.create_topic(
        names.access, forgets
    )  # first: whoever finds the others need not look for it
    kafka.create_topic(names.tokens, {"cleanup.policy": "compact"})
    kafka.create_topic(
        names.audit, {"retention.bytes": str(_AUDIT_RETENTION_BYTES), "retention.ms": "-1"}
    )


def read_tokens(kafka: Kafka, names: Names) -> dict[str, Token]:
    """All tokens by id, revoked ones too; none where there is no topic yet."""
    if names.tokens not in kafka.describe([names.tokens]):
        return {}
    consumer = kafka.reader(names.group("tokens"))
    found: dict[str, Token] = {}
    try:
        consumer.assign([TopicPartition(names.tokens, 0, 0)])
        for record in read_to_end(consumer, names.tokens):
            apply_token_record(found, record.key, record.value)
    finally:
        consumer.close()
    return found


def apply_token_record(into: dict[str, Token], key: bytes, value: bytes) -> None:
    """Note one record. What is no token takes the place of one that was: it must not count."""
    name = key.decode(errors="replace")
    token = tokens.from_json(value, name) if value else None
    if token is not None and token.id == name:
        into[name] = token
    else:
        into.pop(name, None)


def new_token(
    role: tokens.Role, label: str, now: float, life_s: float | None = None
) -> tuple[Token, str]:
    """A new token, and its text: the only time that anybody sees it."""
    token_id = secrets.token_hex(4)
    text = f"{tokens.PREFIX}_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    until = None if life_s is None else int(now + life_s)
    return Token(token_id, role, label, tokens.hash_token(text), int(now), until), text


def create_token(
    kafka: Kafka, names: Names, role: tokens.Role, label: str, life_s: float | None
) -> str:
    """Make a token; its text, which nobody can see again."""
    token, text = new_token(role, label, time.time(), life_s)
    _write(kafka, names.tokens, token.id.encode(), token.to_json())
    return text


def revoke(kafka: Kafka, names: Names, token_id: str) -> Token:
    """Revoke a token for good, everywhere."""
    token = read_tokens(kafka, names).get(token_id)
    if token is None:
        raise AskError(f"there is no token {token_id!r}", hint="`livejoin token list` has all.")
    if why := format_versions.unsupported_reason(
        f"token {token_id}", token.format, format_versions.TOKEN
    ):
        raise NewerFormat(why)
    revoked = token.as_revoked()
    _write(kafka, names.tokens, token.id.encode(), revoked.to_json())
    return revoked


def write_access(kafka: Kafka, names: Names, key: bytes, value: bytes) -> None:
    """Add a record to the topic of access, and wait until it stands."""
    _write(kafka, names.access, key, value)


def end_sessions(kafka: Kafka, names: Names, whose: str, now: float) -> None:
    """End all sessions of an identity that have begun until now."""
    write_access(kafka, names, *ended_sessions.identity_record(whose, now))


def read_ended_sessions(kafka: Kafka, names: Names) -> ended_sessions.EndedSessions:
    """Which sessions were ended; none where there is no topic yet."""
    found = ended_sessions.EndedSessions()
    if names.access in kafka.describe([names.access]):
        consumer = kafka.reader(names.group("tokens"))
        try:
            consumer.assign([TopicPartition(names.access, 0, OFFSET_BEGINNING)])
            for record in read_to_end(consumer, names.access):
                found.apply_record(record.key, record.value)
        finally:
            consumer.close()
    return found


def create_first_tokens(kafka: Kafka, names: Names) -> list[tuple[tokens.Role, str]]:
    """One token of each role, where there has never been any."""
    if read_tokens(kafka, names):
        return []
    label = "made at the first start"
    return [(role, create_token(kafka, names, role, label, None)) for role in tokens.ROLES]


def append_audit_row(kafka: Kafka, names: Names, row: Mapping[str, Any]) -> None:
    """Add a row to the audit, and wait until it stands."""
    _write(kafka, names.audit, b"", json.dumps(row).encode())


def _write(kafka: Kafka, topic: str, key: bytes, value: bytes) -> None:
    write(kafka, topic, [(key, value)], _WRITE_S)
