"""Heartbeats of the leader, for table servers in other processes.

They are not part of the ledger's transactions: one would then nearly always be open when a broker
fails.
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

# Only the newest heartbeat matters.
TOPIC_CONFIG = {"retention.ms": "3600000", "segment.ms": "3600000"}


class LeaderHeartbeat:
    """Sends heartbeats without waiting: a lost one is followed by the next."""

    def __init__(
        self, kafka: Kafka, names: Names, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._clock = clock
        self._producer: Producer | None = None
        self._sent_at = -HEARTBEAT_S

    def send_if_due(self) -> None:
        """Send a heartbeat if HEARTBEAT_S have passed."""
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
            log.warning("cannot send the leader heartbeat, retrying", why=str(error))

    def _get_producer(self) -> Producer:
        if self._producer is None:
            # a late heartbeat is worthless, a duplicate harmless
            timeout_ms = int(HEARTBEAT_S * 1000)
            options = {"message.timeout.ms": timeout_ms, "enable.idempotence": False}
            self._producer = self._kafka.producer(**options)
        return self._producer
