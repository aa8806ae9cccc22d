"""Follows the tokens' topic and the audit's, on a thread of its own.

Apart from the rest that is followed: who may look must be known also where there is nothing yet.
"""

import json
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Message, TopicPartition

from livejoin import tokens
from livejoin.core import spec
from livejoin.core.names import Names
from livejoin.core.tokens import Token
from livejoin.core.told import row_id
from livejoin.errors import LivejoinError
from livejoin.kafka import Kafka
from livejoin.reading import Record, arrived, plain, read_to_end
from livejoin.tables.audit import Audit
from livejoin.tables.follow import Post, tail
from livejoin.tables.guests import Keyring
from livejoin.tables.host import Host

_AGAIN_S = 1.0
_WAIT_S = 0.5
_MOST = 1000


@dataclass(frozen=True)
class Keys:
    """Keeps a keyring and the audit's table up to date, whatever happens to the cluster."""

    kafka: Kafka
    names: Names
    keyring: Keyring
    audit: Audit
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
            self.keyring.trouble = why

        self.post(telling)

    def _follow(self, stop: threading.Event) -> None:
        names = self.names
        if len(self.kafka.describe([names.tokens, names.audit])) < 2:
            why = f"there is no topic {names.tokens} yet: has an orchestrator been started?"
            self._know(None, why)
            return
        consumer = self.kafka.reader(names.group("tokens"))
        try:
            consumer.assign([TopicPartition(names.tokens, 0, 0)])
            known: dict[str, Token] = {}
            for record in read_to_end(consumer, names.tokens):
                tokens.take(known, record.key, record.value)
            self._know(known)
            consumer.incremental_assign([tail(consumer, names.audit, spec.AUDIT_KEPT)])
            self.post(self.audit.is_there)
            while not stop.is_set():
                self._take(arrived(consumer, _MOST, _WAIT_S), known)
        finally:
            consumer.close()

    def _take(self, messages: list[Message], known: dict[str, Token]) -> None:
        new = [plain(one) for one in messages if one.topic() == self.names.tokens]
        for record in new:
            tokens.take(known, record.key, record.value)
        if new:
            self._know(known)
        rows = [_row(plain(one)) for one in messages if one.topic() == self.names.audit]
        if rows:
            self.post(partial(self.host.system.show_audit, rows))

    def _know(self, known: dict[str, Token] | None, trouble: str = "") -> None:
        now = None if known is None else dict(known)

        def knowing() -> None:
            self.keyring.known, self.keyring.trouble = now, trouble

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
