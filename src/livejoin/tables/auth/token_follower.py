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
from livejoin.core.ended_sessions import Ended
from livejoin.core.names import Names
from livejoin.core.outbox import row_id
from livejoin.core.tokens import Token
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.reading import Record, arrived, plain, read_to_end
from livejoin.tables.auth import access_topics
from livejoin.tables.auth.request_signing import Vouching
from livejoin.tables.http.server import Access
from livejoin.tables.ingest.catalog import Host
from livejoin.tables.ingest.follower import Post, tail

_AGAIN_S = 1.0
_WAIT_S = 0.5
_MOST = 1000
_LOOK_S = 5.0


@dataclass(frozen=True)
class Keys:
    """Keeps who may come in and the audit's table up to date, whatever happens to the cluster."""

    kafka: Kafka
    names: Names
    access: Access
    vouching: Vouching
    host: Host
    post: Post

    def run(self, stop: threading.Event) -> None:
        """Follow. Trouble is tried again; what is known stays meanwhile."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._trouble(f"the tokens cannot be read: {error}")
            stop.wait(_AGAIN_S)

    def _trouble(self, why: str) -> None:
        def telling() -> None:
            self.access.guests.keyring.trouble = why

        self.post(telling)

    def _follow(self, stop: threading.Event) -> None:
        names = self.names
        there = self.kafka.describe([names.tokens, names.audit, names.access])
        if not {names.tokens, names.audit} <= set(there):
            why = f"there is no topic {names.tokens} yet: has an orchestrator been started?"
            self._know(None, why)
            return
        consumer = self.kafka.reader(names.group("tokens"))
        try:
            # first who has signed out: nobody of them is let in meanwhile
            further = self._read_access(consumer) if names.access in there else []
            consumer.assign([TopicPartition(names.tokens, 0, 0)])
            known: dict[str, Token] = {}
            for record in read_to_end(consumer, names.tokens):
                access_topics.take(known, record.key, record.value)
            self._know(known)
            consumer.incremental_assign([tail(consumer, names.audit, spec.AUDIT_KEPT), *further])
            self.post(self.access.audit.is_there)
            looked = time.monotonic()
            while not stop.is_set():
                self._take(arrived(consumer, _MOST, _WAIT_S), known)
                if not further and time.monotonic() > looked + _LOOK_S:
                    looked = time.monotonic()
                    if names.access in self.kafka.describe([names.access]):
                        return  # an older leader made none: all is read again with it
        finally:
            consumer.close()

    def _read_access(self, consumer: Consumer) -> list[TopicPartition]:
        """Read the topic of access; where it goes on."""
        topic, read = self.names.access, Ended()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for record in read_to_end(consumer, topic):
            read.take(record.key, record.value)
        self.post(partial(self.access.guests.sessions.learn, read))
        self.post(self.access.sign_outs.is_there)
        self.post(self.vouching.is_there)
        at = consumer.position([TopicPartition(topic, 0)])[0].offset
        return [TopicPartition(topic, 0, at if at >= 0 else OFFSET_BEGINNING)]

    def _take(self, messages: list[Message], known: dict[str, Token]) -> None:
        new = [plain(one) for one in messages if one.topic() == self.names.tokens]
        for record in new:
            access_topics.take(known, record.key, record.value)
        if new:
            self._know(known)
        ended = Ended()
        for record in (plain(one) for one in messages if one.topic() == self.names.access):
            ended.take(record.key, record.value)
        if messages:
            self.post(partial(self.access.guests.sessions.learn, ended))
        rows = [_row(plain(one)) for one in messages if one.topic() == self.names.audit]
        if rows:
            self.post(partial(self.host.system.show_audit, rows))

    def _know(self, known: dict[str, Token] | None, trouble: str = "") -> None:
        now, keyring = None if known is None else dict(known), self.access.guests.keyring

        def knowing() -> None:
            keyring.known, keyring.trouble = now, trouble

        self.post(knowing)


def _row(record: Record) -> dict[str, Any]:
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
