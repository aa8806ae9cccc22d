"""Follows the topics of tokens, access and audit, on a thread of its own.

Apart from the rest that is followed: who may look must be known also where there is nothing yet.
"""

import json
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
from livejoin.core.ended_sessions import EndedSessions
from livejoin.core.names import Names
from livejoin.core.outbox import row_id
from livejoin.core.tokens import Token
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.reading import Record, poll_batch, read_to_end, to_record
from livejoin.tables.auth import access_topics
from livejoin.tables.auth.request_signing import RequestSigner
from livejoin.tables.http.server import Access
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.follower import Post, tail_position

_RETRY_S = 1.0
_POLL_S = 0.5
_MAX_MESSAGES = 1000
_RECHECK_S = 5.0


@dataclass(frozen=True)
class TokenFollower:
    """Keeps who may come in and the audit's table up to date, whatever happens to the cluster."""

    kafka: Kafka
    names: Names
    access: Access
    signer: RequestSigner
    catalog: Catalog
    post: Post

    def run(self, stop: threading.Event) -> None:
        """Follow. Trouble is tried again; what is known stays meanwhile."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._set_unavailable(f"the tokens cannot be read: {error}")
            stop.wait(_RETRY_S)

    def _set_unavailable(self, why: str) -> None:
        def telling() -> None:
            self.access.identities.tokens.unavailable_reason = why

        self.post(telling)

    def _follow(self, stop: threading.Event) -> None:
        names = self.names
        there = self.kafka.describe([names.tokens, names.audit, names.access])
        if not {names.tokens, names.audit} <= set(there):
            why = f"there is no topic {names.tokens} yet: has an orchestrator been started?"
            self._set_tokens(None, why)
            return
        consumer = self.kafka.reader(names.group("tokens"))
        try:
            # first who has signed out: nobody of them is let in meanwhile
            further = self._read_ended_sessions(consumer) if names.access in there else []
            consumer.assign([TopicPartition(names.tokens, 0, 0)])
            known: dict[str, Token] = {}
            for record in read_to_end(consumer, names.tokens):
                access_topics.apply_token_record(known, record.key, record.value)
            self._set_tokens(known)
            consumer.incremental_assign(
                [tail_position(consumer, names.audit, spec.AUDIT_KEPT), *further]
            )
            self.post(self.access.audit.on_topic_ready)
            looked = time.monotonic()
            while not stop.is_set():
                self._apply(poll_batch(consumer, _MAX_MESSAGES, _POLL_S), known)
                if not further and time.monotonic() > looked + _RECHECK_S:
                    looked = time.monotonic()
                    if names.access in self.kafka.describe([names.access]):
                        return  # an older leader made none: all is read again with it
        finally:
            consumer.close()

    def _read_ended_sessions(self, consumer: Consumer) -> list[TopicPartition]:
        """Read the topic of access; where it goes on."""
        topic, read = self.names.access, EndedSessions()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for record in read_to_end(consumer, topic):
            read.apply_record(record.key, record.value)
        self.post(partial(self.access.identities.sessions.add_ended, read))
        self.post(self.access.sign_outs.on_topic_ready)
        self.post(self.signer.on_topic_ready)
        at = consumer.position([TopicPartition(topic, 0)])[0].offset
        return [TopicPartition(topic, 0, at if at >= 0 else OFFSET_BEGINNING)]

    def _apply(self, messages: list[Message], known: dict[str, Token]) -> None:
        new = [to_record(one) for one in messages if one.topic() == self.names.tokens]
        for record in new:
            access_topics.apply_token_record(known, record.key, record.value)
        if new:
            self._set_tokens(known)
        ended = EndedSessions()
        for record in (to_record(one) for one in messages if one.topic() == self.names.access):
            ended.apply_record(record.key, record.value)
        if messages:
            self.post(partial(self.access.identities.sessions.add_ended, ended))
        rows = [
            _decode_audit_row(to_record(one)) for one in messages if one.topic() == self.names.audit
        ]
        if rows:
            self.post(partial(self.catalog.system.add_audit_rows, rows))

    def _set_tokens(self, known: dict[str, Token] | None, trouble: str = "") -> None:
        now, keyring = None if known is None else dict(known), self.access.identities.tokens

        def knowing() -> None:
            keyring.by_id, keyring.unavailable_reason = now, trouble

        self.post(knowing)


def _decode_audit_row(record: Record) -> dict[str, Any]:
    """A row of the audit. What is no row of ours shows as what it is: nobody else should write."""
    columns = {column.name: column.type for column in spec.RESTRICTED[spec.AUDIT].columns}
    try:
        found = json.loads(record.value)
        cells: dict[str, Any] = {name: found.get(name) for name in columns}
    except (ValueError, AttributeError, RecursionError):
        cells = {"detail": f"no row: {record.value[:100]!r}"}
    for name, kind in columns.items():
        expected = str if kind == "string" else int
        if not isinstance(cells.get(name), expected):
            cells[name] = None
    return {**cells, "_id": row_id(record.offset)}
