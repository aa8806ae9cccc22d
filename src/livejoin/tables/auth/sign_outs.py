"""Publishes sign-outs to the access topic, for all servers and those started later."""

import asyncio
from collections.abc import Callable

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from livejoin.core import tokens
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

_WAIT_S = 10.0
_DELIVERY_TIMEOUT_S = 300  # a sign-out is lost after a longer Kafka outage
_MAX_PENDING = 1000  # sign-outs kept until the topic exists

DeliveryCallback = Callable[[KafkaError | None, Message], None]


class SignOutPublisher:
    """Writes sign-outs asynchronously. Used on the event loop only."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.access
        self._producer: Producer | None = None
        self._topic_ready = False
        self._pending: list[tuple[str, float]] = []

    def on_topic_ready(self) -> None:
        """Write the pending sign-outs, now that the topic exists."""
        self._topic_ready = True
        pending, self._pending = self._pending, []
        for session, expires_at in pending:
            self._write(session, expires_at, _log_failure)

    async def publish(self, session: str, expires_at: float) -> str:
        """Publish the end of a session; return why that failed so far, or an empty string."""
        if not self._topic_ready:  # a write could auto-create the topic with wrong settings
            self._pending = [*self._pending[1 - _MAX_PENDING :], (session, expires_at)]
            return f"topic {self._topic} does not exist yet: has an orchestrator been started?"
        outcome: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append(error.str() if error else "")
            _log_failure(error, message)

        try:
            producer = self._write(session, expires_at, delivered)
            await asyncio.to_thread(producer.flush, _WAIT_S)
        except (KafkaException, BufferError) as error:
            return str(error)
        return outcome[0] if outcome else "Kafka does not answer"

    def _write(self, session: str, expires_at: float, delivered: DeliveryCallback) -> Producer:
        if self._producer is None:
            self._producer = self._kafka.producer(
                **{"message.timeout.ms": _DELIVERY_TIMEOUT_S * 1000}
            )
        key, value = tokens.session_record(session, expires_at)
        self._producer.produce(self._topic, value, key, on_delivery=delivered)
        return self._producer

    def close(self, limit_s: float) -> None:
        """Write everything that is left, within a time limit."""
        if self._producer is not None and self._producer.flush(limit_s):
            log.error("a sign-out was not published before shutdown", topic=self._topic)


def _log_failure(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        log.error("a sign-out could not be published to other servers", why=error.str())
