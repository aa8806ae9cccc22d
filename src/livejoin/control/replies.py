"""Replies to control messages that go to another cluster than the ledger: sent at least once.

The ledger has them from the transaction of their decision on, until they are acknowledged.
"""

import base64
import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from livejoin.core.names import Names
from livejoin.core.state import REPLY_KEY, Reply, row_id
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

_POLL_S = 0.5
_SEND_S = 10  # until the replies of one attempt are acknowledged
_RETRY_S = 2.0
_MAX_SENT = 1000  # in one attempt


@dataclass(frozen=True)
class PendingReply:
    """A record of the replies topic, and its key in the ledger."""

    ledger_key: bytes
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, reply: Reply) -> "PendingReply":
        """The record of a reply."""
        return cls(
            REPLY_KEY + row_id(reply.line).encode(),
            (reply.origin.id or reply.origin.position).encode(),
            json.dumps(reply.reply_record()).encode(),
            tuple((name, str(value).encode()) for name, value in reply.headers().items()),
        )

    def to_json(self) -> bytes:
        """Encode for the ledger. Keys of replies are chosen by their senders, as any text."""
        headers = {name: value.decode() for name, value in self.headers}
        key = base64.b64encode(self.key).decode()
        return json.dumps({"key": key, "value": self.value.decode(), "headers": headers}).encode()

    @classmethod
    def from_json(cls, ledger_key: bytes, data: bytes) -> "PendingReply":
        """Decode from the ledger."""
        found = json.loads(data)
        headers = tuple((name, value.encode()) for name, value in found["headers"].items())
        return cls(ledger_key, base64.b64decode(found["key"]), found["value"].encode(), headers)


class ReplySender:
    """Sends replies in their order. After a failure it starts over with the first unanswered."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.replies
        self._lock = threading.Lock()
        self._pending: list[PendingReply] = []
        self._acknowledged: list[bytes] = []
        self._wake = threading.Event()

    def add(self, replies: Iterable[PendingReply]) -> None:
        """Send these after all others."""
        with self._lock:
            self._pending += replies
        self._wake.set()

    def acknowledged(self) -> Sequence[bytes]:
        """Keys in the ledger of the replies that it no longer needs to keep."""
        with self._lock:
            return list(self._acknowledged)

    def forget(self, keys: Sequence[bytes]) -> None:
        """Drop keys that were removed from the ledger: the first ones of `acknowledged`."""
        with self._lock:
            del self._acknowledged[: len(keys)]

    def run(self, stop: threading.Event) -> None:
        """Send until stopped. Failures are logged once, and retried."""
        reported = ""
        producer: Producer | None = None
        while not stop.is_set():
            self._wake.wait(_POLL_S)
            self._wake.clear()
            with self._lock:
                replies = self._pending[:_MAX_SENT]
            if not replies:
                continue
            try:
                if producer is None:
                    own_topics.create(self._kafka, self._topic, "replies")
                    producer = self._new_producer()
                self._send(producer, replies, stop)
                reported = ""
            except (LivejoinError, KafkaException, BufferError) as error:
                if str(error) != reported:
                    log.warning("replies wait in the ledger", topic=self._topic, why=str(error))
                reported, producer = str(error), None
                stop.wait(_RETRY_S)
            self._wake.set()  # there may be more

    def _new_producer(self) -> Producer:
        """A producer that writes none of the replies behind one that it could not write."""
        limits = {"message.timeout.ms": _SEND_S * 1000, "enable.gapless.guarantee": True}
        return self._kafka.producer(**limits)

    def _send(
        self, producer: Producer, replies: Sequence[PendingReply], stop: threading.Event
    ) -> None:
        """Send replies and wait; those before the first failure count as sent."""
        results: dict[int, KafkaError | None] = {}

        def delivered(index: int, error: KafkaError | None, _message: Message) -> None:
            results[index] = error

        for index, reply in enumerate(replies):
            headers = list[tuple[str, str | bytes | None]](reply.headers)
            producer.produce(
                self._topic,
                reply.value,
                reply.key,
                headers=headers,
                on_delivery=partial(delivered, index),
            )
        until = time.monotonic() + _SEND_S + 1
        while producer.flush(_POLL_S) and time.monotonic() < until and not stop.is_set():
            pass
        all_sent = len(replies)
        failed = (i for i in range(all_sent) if i not in results or results[i] is not None)
        sent = next(failed, all_sent)
        with self._lock:
            self._acknowledged += [reply.ledger_key for reply in self._pending[:sent]]
            del self._pending[:sent]
        if sent < all_sent:
            failure = results.get(sent)
            why = failure.str() if failure is not None else "no acknowledgement"
            raise KafkaUnavailable(f'topic "{self._topic}" cannot be written: {why}')
