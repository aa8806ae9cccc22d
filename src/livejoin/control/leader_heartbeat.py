"""Says every few seconds that we lead, for table servers elsewhere.

Not by the ledger's transactions: those would then nearly always be open when a broker goes away.
"""

import json
import time
from collections.abc import Callable

import structlog
from confluent_kafka import KafkaException, Producer

from livejoin.core.names import Names
from livejoin.core.state import HEARTBEAT_S, LEADER_KEY
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

# Only the newest is of use, and nobody reads them from the beginning.
TOPIC_CONFIG = {"retention.ms": "3600000", "segment.ms": "3600000"}


class LeaderHeartbeat:
    """Beats of one leader. Waits for nothing: one that is lost is followed by the next."""

    def __init__(
        self, kafka: Kafka, names: Names, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._clock = clock
        self._producer: Producer | None = None
        self._sent_at = -HEARTBEAT_S

    def send_if_due(self) -> None:
        """Say that we lead, if it is time."""
        now = self._clock()
        if now < self._sent_at + HEARTBEAT_S:
            return
        self._sent_at = now
        beat = json.dumps({"at": int(time.time() * 1000)})
        try:
            producer = self._get_producer()
            producer.produce(self._names.leader, beat.encode(), LEADER_KEY)
            producer.poll(0)
        except (KafkaException, BufferError) as error:
            log.warning("cannot say that we lead, trying again", why=str(error))

    def _get_producer(self) -> Producer:
        if self._producer is None:
            # one that comes late says nothing, and one that comes twice does no harm
            late_ms = int(HEARTBEAT_S * 1000)
            options = {"message.timeout.ms": late_ms, "enable.idempotence": False}
            self._producer = self._kafka.producer(**options)
        return self._producer
