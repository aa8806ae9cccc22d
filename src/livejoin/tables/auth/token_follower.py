"""Follows the topics of tokens, ended sessions and audit rows, on a thread of its own.

It is separate from the follower of the tables because callers must be authenticated even where no
ledger exists yet.
"""

import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)

from livejoin.core import spec
from livejoin.core.json_object import parse_object
from livejoin.core.names import Names
from livejoin.core.state import row_id
from livejoin.core.tokens import EndedSessions, Token
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import Record, poll_batch, read_to_end, to_record
from livejoin.tables.auth import access_topics
from livejoin.tables.http.control_requests import RequestSigner
from livejoin.tables.http.server import Access
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.follower import Post, tail_position

_RETRY_S = 1.0
_POLL_S = 0.5
_MAX_MESSAGES = 1000
_RECHECK_S = 5.0


@dataclass(frozen=True)
class TokenFollower:
    """Keeps the tokens, the ended sessions and the table `audit` up to date."""

    kafka: Kafka
    names: Names
    access: Access
    signer: RequestSigner
    catalog: Catalog
    post: Post

    def run(self, stop: threading.Event) -> None:
        """Follow until stopped. After an error it retries, and the last known tokens stay valid."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._set_unavailable(f"cannot read the tokens: {error}")
            stop.wait(_RETRY_S)

    def _set_unavailable(self, reason: str) -> None:
        def update() -> None:
            self.access.identities.tokens.unavailable_reason = reason

        self.post(update)

    def _follow(self, stop: threading.Event) -> None:
        names = self.names
        existing = self.kafka.describe([names.tokens, names.audit, names.access])
        if not {names.tokens, names.audit} <= set(existing):
            reason = f"topic {names.tokens} does not exist yet: has an orchestrator been started?"
            self._set_tokens(None, reason)
            return
        consumer = self.kafka.reader(names.group("tokens"))
        try:
            # ended sessions come first, so that none is accepted in between
            access_partitions = (
                self._read_ended_sessions(consumer) if names.access in existing else []
            )
            consumer.assign([TopicPartition(names.tokens, 0, 0)])
            tokens: dict[str, Token] = {}
            for record in read_to_end(consumer, names.tokens):
                access_topics.apply_token_record(tokens, record.key, record.value)
            self._set_tokens(tokens)
            consumer.incremental_assign(
                [tail_position(consumer, names.audit, spec.AUDIT_KEPT), *access_partitions]
            )
            self.post(self.access.audit.on_topic_ready)
            checked_at = time.monotonic()
            while not stop.is_set():
                self._apply(poll_batch(consumer, _MAX_MESSAGES, _POLL_S), tokens)
                if not access_partitions and time.monotonic() > checked_at + _RECHECK_S:
                    checked_at = time.monotonic()
                    if names.access in self.kafka.describe([names.access]):
                        return  # an older leader created none; start over with it
        finally:
            consumer.close()

    def _read_ended_sessions(self, consumer: Consumer) -> list[TopicPartition]:
        """Read the access topic; return the position to continue from."""
        topic, ended = self.names.access, EndedSessions()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for record in read_to_end(consumer, topic):
            ended.apply_record(record.key, record.value)
        self.post(partial(self.access.identities.sessions.add_ended, ended))
        self.post(self.access.sign_outs.on_topic_ready)
        self.post(self.signer.on_topic_ready)
        offset = consumer.position([TopicPartition(topic, 0)])[0].offset
        return [TopicPartition(topic, 0, offset if offset >= 0 else OFFSET_BEGINNING)]

    def _apply(self, messages: list[Message], tokens: dict[str, Token]) -> None:
        records = [
            to_record(message) for message in messages if message.topic() == self.names.tokens
        ]
        for record in records:
            access_topics.apply_token_record(tokens, record.key, record.value)
        if records:
            self._set_tokens(tokens)
        ended = EndedSessions()
        for record in (
            to_record(message) for message in messages if message.topic() == self.names.access
        ):
            ended.apply_record(record.key, record.value)
        if messages:
            self.post(partial(self.access.identities.sessions.add_ended, ended))
        rows = [
            _decode_audit_row(to_record(message))
            for message in messages
            if message.topic() == self.names.audit
        ]
        if rows:
            self.post(partial(self.catalog.system.add_audit_rows, rows))

    def _set_tokens(self, tokens: dict[str, Token] | None, unavailable_reason: str = "") -> None:
        now, registry = None if tokens is None else dict(tokens), self.access.identities.tokens

        def update() -> None:
            registry.by_id, registry.unavailable_reason = now, unavailable_reason

        self.post(update)


def _decode_audit_row(record: Record) -> dict[str, Any]:
    """Decode a row of the audit; a malformed record becomes a row that quotes it."""
    columns = {column.name: column.type for column in spec.RESTRICTED[spec.AUDIT].columns}
    decoded = parse_object(record.value)
    if decoded is None:
        decoded = {"detail": f"not an audit row: {record.value[:100]!r}"}
    cells: dict[str, Any] = {name: decoded.get(name) for name in columns}
    for name, kind in columns.items():
        expected = str if kind == "string" else int
        if not isinstance(cells.get(name), expected):
            cells[name] = None
    return {**cells, "_id": row_id(record.offset)}
