"""Creates, reads and writes the topics of tokens, of the audit and of ended sessions."""

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from livejoin.core import format_versions, tokens
from livejoin.core.names import Names
from livejoin.core.tokens import Token
from livejoin.errors import NewerFormat, RequestError
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end, write

_WRITE_S = 10
_SECRET_BYTES = 32


def create_topics(kafka: Kafka, names: Names) -> None:
    """Create the topics that do not exist yet, and repair those that a broker auto-created."""
    own_topics.ensure(kafka, names.access, "access")  # first, so that the others imply it exists
    own_topics.ensure(kafka, names.tokens, "tokens")
    own_topics.ensure(kafka, names.audit, "audit")


def read_tokens(kafka: Kafka, names: Names) -> dict[str, Token]:
    """Return all tokens by id, revoked ones included; empty if the topic does not exist yet."""
    if names.tokens not in kafka.describe([names.tokens]):
        return {}
    consumer = kafka.reader(names.group("tokens"))
    result: dict[str, Token] = {}
    try:
        consumer.assign([TopicPartition(names.tokens, 0, 0)])
        for record in read_to_end(consumer, names.tokens):
            apply_token_record(result, record.key, record.value)
    finally:
        consumer.close()
    return result


def apply_token_record(token_by_id: dict[str, Token], key: bytes, value: bytes) -> None:
    """Apply one record. A malformed record removes the token of its key, which then is invalid."""
    token_id = key.decode(errors="replace")
    token = tokens.from_json(value, token_id) if value else None
    if token is not None and token.id == token_id:
        token_by_id[token_id] = token
    else:
        token_by_id.pop(token_id, None)


def new_token(
    role: tokens.Role, label: str, now: float, lifetime_s: float | None = None
) -> tuple[Token, str]:
    """Return a new token and its secret text, which is not stored anywhere."""
    token_id = secrets.token_hex(4)
    text = f"{tokens.PREFIX}_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    expires_at = None if lifetime_s is None else int(now + lifetime_s)
    return Token(token_id, role, label, tokens.hash_token(text), int(now), expires_at), text


def create_token(
    kafka: Kafka, names: Names, role: tokens.Role, label: str, lifetime_s: float | None
) -> str:
    """Create a token and return its secret text, which cannot be recovered later."""
    token, text = new_token(role, label, time.time(), lifetime_s)
    _write(kafka, names.tokens, token.id.encode(), token.to_json())
    return text


def revoke(kafka: Kafka, names: Names, token_id: str) -> Token:
    """Revoke a token permanently, on every server."""
    token = read_tokens(kafka, names).get(token_id)
    if token is None:
        raise RequestError(
            f"there is no token {token_id!r}", hint="List them: `livejoin token list`."
        )
    if why := format_versions.unsupported_reason(
        f"token {token_id}", token.format, format_versions.TOKEN
    ):
        raise NewerFormat(why)
    revoked = token.as_revoked()
    _write(kafka, names.tokens, token.id.encode(), revoked.to_json())
    return revoked


def write_access(kafka: Kafka, names: Names, key: bytes, value: bytes) -> None:
    """Write a record to the access topic and wait for the acknowledgement."""
    _write(kafka, names.access, key, value)


def end_sessions(kafka: Kafka, names: Names, identity_id: str, now: float) -> None:
    """End all sessions that this identity started before `now`."""
    write_access(kafka, names, *tokens.identity_record(identity_id, now))


def read_ended_sessions(kafka: Kafka, names: Names) -> tokens.EndedSessions:
    """Return the ended sessions; empty if the topic does not exist yet."""
    result = tokens.EndedSessions()
    if names.access in kafka.describe([names.access]):
        consumer = kafka.reader(names.group("tokens"))
        try:
            consumer.assign([TopicPartition(names.access, 0, OFFSET_BEGINNING)])
            for record in read_to_end(consumer, names.access):
                result.apply_record(record.key, record.value)
        finally:
            consumer.close()
    return result


def create_first_tokens(kafka: Kafka, names: Names) -> list[tuple[tokens.Role, str]]:
    """Create one token per role, unless any token was ever created."""
    if read_tokens(kafka, names):
        return []
    label = "made at the first start"
    return [(role, create_token(kafka, names, role, label, None)) for role in tokens.ROLES]


def append_audit_row(kafka: Kafka, names: Names, row: Mapping[str, Any]) -> None:
    """Append a row to the audit topic and wait for the acknowledgement."""
    _write(kafka, names.audit, b"", json.dumps(row).encode())


def _write(kafka: Kafka, topic: str, key: bytes, value: bytes) -> None:
    write(kafka, topic, [(key, value)], _WRITE_S)
