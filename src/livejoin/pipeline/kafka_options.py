"""Options of Spark's Kafka connector, for streams and batch jobs."""

import json

from livejoin.core.generation import Offsets
from livejoin.core.names import Names
from livejoin.kafka.cluster import MAX_RECORD_BYTES, Kafka


def reader_options(kafka: Kafka, names: Names) -> dict[str, str]:
    """Options for every reader."""
    return kafka.spark_options() | {
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.bytes": str(MAX_RECORD_BYTES),
        "kafka.max.poll.records": "5000",  # from a fetch of 1 MiB; the default is 500
        "groupIdPrefix": names.group("pipeline"),
    }


def writer_options(kafka: Kafka) -> dict[str, str]:
    """Options for every writer; the topic is not among them."""
    return kafka.spark_options() | {
        "kafka.max.request.size": str(MAX_RECORD_BYTES),
        "kafka.acks": "all",
        # Without it most records are sent alone, which takes half of all CPU time while a history
        # is read. The mean latency rises by half of it.
        "kafka.linger.ms": "5",
        "kafka.batch.size": str(256 << 10),
    }


def offsets_json(topic: str, by_partition: Offsets) -> str:
    """Offsets of one topic as the connector's JSON."""
    return json.dumps({topic: {str(p): offset for p, offset in by_partition.items()}})
