"""Tells all servers, and those that are started later, which sessions were signed out of."""

import asyncio
from collections.abc import Callable

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from livejoin.core import ended_sessions
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

_WAIT_S = 10.0
_DELIVERY_TIMEOUT_S = 300  # how long an outage of Kafka may be until one is not told to others
_MAX_PENDING = 1000  # that wait for the topic to be there

DeliveryCallback = Callable[[KafkaError | None, Message], None]


class SignOutPublisher:
    """Writes them to the topic of access. Lives on the thread that owns the tables."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.access
        self._producer: Producer | None = None
        self._topic_ready = False
        self._pending: list[tuple[str, float]] = []

    def on_topic_ready(self) -> None:
        """The topic exists: what waits for it can be written."""
        self._topic_ready = True
        waiting, self._pending = self._pending, []
        for session, until in waiting:
            self._write(session, until, _log_failure)

    async def publish(self, session: str, until: float) -> str:
        """End a session everywhere; why others do not know of it yet, or nothing."""
        if not self._topic_ready:  # a write could make the topic, in another form
            self._pending = [*self._pending[1 - _MAX_PENDING :], (session, until)]
            return f"there is no topic {self._topic} yet: has an orchestrator been started?"
        outcome: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append(error.str() if error else "")
            _log_failure(error, message)

        try:
            producer = self._write(session, until, delivered)
            await asyncio.to_thread(producer.flush, _WAIT_S)
        except (KafkaException, BufferError) as error:
            return str(error)
        return outcome[0] if outcome else "Kafka does not answer"

    def _write(self, session: str, until: float, delivered: DeliveryCallback) -> Producer:
        if self._producer is None:
            self._producer = self._kafka.producer(
                **{"message.timeout.ms": _DELIVERY_TIMEOUT_S * 1000}
            )
        key, value = ended_sessions.session_record(session, until)
        self._producer.produce(self._topic, value, key, on_delivery=delivered)
        return self._producer

    def close(self, limit_s: float) -> None:
        """Have all of it written, if that is possible in time."""
        if self._producer is not None and self._producer.flush(limit_s):
            log.error("a sign-out is known to nobody any more", topic=self._topic)


def _log_failure(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        log.error("a sign-out is known to this server alone", why=error.str())
