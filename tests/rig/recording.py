"""Recordings of topics as JSON: written by one version of livejoin, restored for a later version.

As a program, it writes the fixture for the current format:

    python tests/rig/recording.py tests/fixtures/format-N.json

Topic ids cannot be restored. Where the ledger names the ids of source and control topics, `restore`
replaces them by those of the topics it created.
"""

import json
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import poll_batch
from livejoin.runtime import broker
from livejoin.tables.auth import access_topics
from rig.produce import Producers
from rig.running import COLD, Running, until

NAME = "kept"
TOPICS = {pair: {s: f"{NAME}.{s}.{pair}" for s in ("users", "accounts")} for pair in "ab"}
_READ_S = 0.5
Recording = Mapping[str, Any]


def record(kafka: Kafka, name: str) -> dict[str, Any]:
    """Return all topics of a livejoin, its inputs included, with their records."""
    own_topics = [topic for topic in kafka.topics() if topic.startswith(f"{name}.")]
    found = kafka.describe(own_topics)
    return {
        topic: {
            "id": found[topic].id,
            "partitions": len(found[topic].partitions),
            "config": _config(kafka, topic),
            "records": [
                _plain(message) for message in _records(kafka, topic, found[topic].partitions)
            ],
        }
        for topic in own_topics
    }


def restore(kafka: Kafka, topics: Recording) -> None:
    """Create the topics of a recording, with records at their original offsets if that matters."""
    for name, topic in topics.items():
        # the records are old and must not expire
        kafka.create_topic(name, {"retention.ms": "-1", **topic["config"]}, topic["partitions"])
    found = kafka.describe(topics)
    ids = {topic["id"]: found[name].id for name, topic in topics.items()}
    producer = kafka.producer()
    for name, topic in topics.items():
        for partition, _, at, key, value, headers in topic["records"]:
            for old, new in ids.items():
                value = value and value.replace(old, new)  # noqa: PLW2901 - the same text
            producer.produce(
                name,
                value,
                key,
                partition,
                timestamp=at,
                headers=dict(headers) if headers else None,
            )
    assert producer.flush(30) == 0


def _config(kafka: Kafka, topic: str) -> dict[str, str]:
    """Return the settings given at the topic's creation."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = kafka.admin.describe_configs([resource]).values()
    entries: dict[str, Any] = future.result(10)
    own_topics = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in entries.items() if entry.source == own_topics}


def _records(kafka: Kafka, topic: str, partitions: Iterable[int]) -> list[Message]:
    consumer = kafka.reader(f"{NAME}-recording")
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records: list[Message] = []
        while batch := poll_batch(consumer, 10_000, 10 * _READ_S if not records else _READ_S):
            records += batch
    finally:
        consumer.close()
    return sorted(records, key=lambda message: (message.partition() or 0, message.offset() or 0))


def _plain(message: Message) -> list[Any]:
    """Partition, offset, timestamp, key, value, headers; all that livejoin writes is UTF-8."""
    headers: Any = message.headers() or []
    texts = [None if part is None else part.decode() for part in (message.key(), message.value())]
    pairs = [[name, value.decode()] for name, value in headers]
    return [message.partition(), message.offset(), message.timestamp()[1], *texts, pairs]


def _make(kafka: Kafka, folder: Path) -> dict[str, Any]:
    """A first generation, a swap with a batch job, and a rollback: one live, one standby."""
    names, dice = Names(NAME), random.Random(1)
    for pair, count in (("a", 24), ("b", 40)):
        for topic in TOPICS[pair].values():
            kafka.create_topic(topic, partitions=2)
        producers = Producers(kafka, TOPICS[pair], tag=pair)
        for _ in range(count):
            producers.send_random(dice, users=0.4)
        producers.send("users", b"no JSON")
        producers.send("accounts", None)
        producers.flush()
    access_topics.create_topics(kafka, names)
    text = access_topics.create_token(kafka, names, "operator", "recorded", None)
    access_topics.create_token(kafka, names, "viewer", "revoked", None)
    revoked = next(
        t for t in access_topics.read_tokens(kafka, names).values() if t.label == "revoked"
    )
    access_topics.revoke(kafka, names, revoked.id)
    live = Running(
        kafka,
        folder,
        token=text,
        name=NAME,
        topics=TOPICS["a"],
        http={"insecure": False},
        spark={"history_records": 30, "conf": COLD},
    )
    live.start()
    try:
        live.wait_live()
        live.request(
            "api/v1/control", {f"{s}Topic": t for s, t in TOPICS["b"].items()} | {"id": "b"}
        )
        until(lambda: live.request("api/v1/status")["generation"] == 2, "the swap")
        live.request("api/v1/rollback", {"id": "back"})
        until(lambda: live.request("api/v1/status")["generation"] == 1, "the rollback")
        assert live.stop() == 0
    except BaseException:
        live.stop()
        print(live.log.read_text()[-5000:], file=sys.stderr)
        raise
    return {"name": NAME, "token": text, "topics": record(kafka, NAME)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder_name:
        with broker.embedded_broker(Path(folder_name) / "broker") as broker_kafka:
            written = _make(broker_kafka, Path(folder_name) / "livejoin")
        for one_topic, what in written["topics"].items():
            print(one_topic, len(what["records"]))
    Path(sys.argv[1]).write_text(json.dumps(written, separators=(",", ":")) + "\n")
