"""Producers that remember exactly what the broker acknowledged."""

import contextlib
import json
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from livejoin.kafka.cluster import Kafka
from rig.oracle import Sent
from rig.running import until


class Producers:
    """Produces to the topics of the sources."""

    def __init__(self, kafka: Kafka, topics: dict[str, str], tag: str = "t") -> None:
        self._kafka = kafka
        self._topics = topics
        self._tag = tag  # prefix of every userId, so that topic pairs share none
        self._producer = self._new_producer()
        self._failed: list[str] = []
        self.user_count = 50  # number of users in random records
        self.acknowledged: dict[str, list[Sent]] = defaultdict(list)
        self.rows: Counter[str] = Counter()  # valid rows among the acknowledged records

    def _new_producer(self) -> Producer:
        return self._kafka.producer(
            **{
                "message.max.bytes": 8 << 20,
                "topic.metadata.refresh.interval.ms": 1000,  # partitions may be added
                "delivery.timeout.ms": 600_000,  # brokers may be down
            }
        )

    def topic_recreated(self, source: str) -> None:
        """Start again after the topic was recreated: it is empty, and the old client may hang."""
        self.acknowledged[source].clear()
        self.rows[source] = 0
        self._producer = self._new_producer()

    def wait_for_partitions(self, source: str, count: int) -> None:
        """Wait until the client knows this number of partitions."""
        topic = self._topics[source]

        def known() -> bool:
            return (
                len(self._producer.list_topics(topic, timeout=10).topics[topic].partitions) == count
            )

        until(known, f"{topic} has {count} partitions", 30)

    def send(
        self,
        source: str,
        value: Any,
        *,
        partition: int = -1,
        timestamp: int = 0,
        key: str | bytes | None = None,
    ) -> None:
        """Send bytes, text, None, or an object as JSON."""
        data = value if value is None or isinstance(value, bytes | str) else json.dumps(value)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed.append(error.str())
                return
            at, raw = message.timestamp()[1], message.value()
            place = message.partition(), message.offset()
            assert place[0] is not None
            assert place[1] is not None
            self.acknowledged[source].append(Sent(place[0], place[1], at, raw))
            self.rows[source] += isinstance(value, dict)

        self._producer.produce(
            self._topics[source], data, key, partition, on_delivery=delivered, timestamp=timestamp
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        assert self._producer.flush(60) == 0
        assert not self._failed, self._failed[:3]

    @property
    def count(self) -> int:
        """The number of acknowledged records."""
        return sum(map(len, self.acknowledged.values()))

    def send_random(self, dice: random.Random, users: float = 0.2) -> None:
        """Send a random record: a user with probability `users`, otherwise an account."""
        user = f"{self._tag}-{dice.randrange(self.user_count)}"
        if dice.random() < users:
            self.send("users", {"userId": user, "name": f"N{dice.random()}", "age": 7})
        else:
            self.send("accounts", {"userId": user, "balance": dice.randrange(10**6)})

    @contextlib.contextmanager
    def traffic(self, per_second: float, seed: int) -> Iterator[None]:
        """Send users and accounts at a steady rate in the background."""
        stop = threading.Event()
        dice = random.Random(seed)

        def work() -> None:
            while not stop.wait(1 / per_second):
                self.send_random(dice)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.flush()
