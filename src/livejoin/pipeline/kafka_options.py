"""What Spark's connector is told of Kafka, for streams and for batch jobs."""

import json

from livejoin.core.generation import Offsets
from livejoin.core.names import Names
from livejoin.kafka.cluster import MAX_RECORD_BYTES, Kafka


def reader_options(kafka: Kafka, names: Names) -> dict[str, str]:
    """How to read, whatever it is."""
    return kafka.spark_options() | {
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.bytes": str(MAX_RECORD_BYTES),
        "kafka.max.poll.records": "5000",  # of a fetch of 1 MiB; 500 by default
        "groupIdPrefix": names.group("pipeline"),
    }


def writer_options(kafka: Kafka) -> dict[str, str]:
    """How to write, wherever to."""
    return kafka.spark_options() | {
        "kafka.max.request.size": str(MAX_RECORD_BYTES),
        "kafka.acks": "all",
        # Without a wait most records travel alone, and broker and followers handle each: half
        # of all CPU time while a history is read. It adds half of itself to the latency.
        "kafka.linger.ms": "5",
        "kafka.batch.size": str(256 << 10),
    }


def offsets_json(topic: str, by_partition: Offsets) -> str:
    """One offset for each partition of a topic."""
    return json.dumps({topic: {str(p): offset for p, offset in by_partition.items()}})
