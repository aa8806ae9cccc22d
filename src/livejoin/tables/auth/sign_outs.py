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
_LATE_S = 300  # how long an outage of Kafka may be until one is not told to others
_HELD = 1000  # that wait for the topic to be there

Delivered = Callable[[KafkaError | None, Message], None]


class SignOuts:
    """Writes them to the topic of access. Lives on the thread that owns the tables."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.access
        self._producer: Producer | None = None
        self._there = False
        self._held: list[tuple[str, float]] = []

    def is_there(self) -> None:
        """The topic exists: what waits for it can be written."""
        self._there = True
        waiting, self._held = self._held, []
        for session, until in waiting:
            self._write(session, until, _noted)

    async def tell(self, session: str, until: float) -> str:
        """End a session everywhere; why others do not know of it yet, or nothing."""
        if not self._there:  # a write could make the topic, in another form
            self._held = [*self._held[1 - _HELD :], (session, until)]
            return f"there is no topic {self._topic} yet: has an orchestrator been started?"
        outcome: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append(error.str() if error else "")
            _noted(error, message)

        try:
            producer = self._write(session, until, delivered)
            await asyncio.to_thread(producer.flush, _WAIT_S)
        except (KafkaException, BufferError) as error:
            return str(error)
        return outcome[0] if outcome else "Kafka does not answer"

    def _write(self, session: str, until: float, delivered: Delivered) -> Producer:
        if self._producer is None:
            self._producer = self._kafka.producer(**{"message.timeout.ms": _LATE_S * 1000})
        key, value = ended_sessions.one_ended(session, until)
        self._producer.produce(self._topic, value, key, on_delivery=delivered)
        return self._producer

    def close(self, limit_s: float) -> None:
        """Have all of it written, if that is possible in time."""
        if self._producer is not None and self._producer.flush(limit_s):
            log.error("a sign-out is known to nobody any more", topic=self._topic)


def _noted(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        log.error("a sign-out is known to this server alone", why=error.str())
