"""The ledger and the log: topics for what the control plane knows, shows and says."""

import json
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from livejoin.core.generation import STATE_KEY, STATUS_KEY, Line, State, from_json, to_json
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable
from livejoin.kafka import Kafka, read_to_end

_WRITE_S = 10


class Ledger:
    """Reads the last state; writes states, the status row and log lines, each only where new."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._names = names
        self._producer: Producer | None = None
        self._written: dict[bytes, bytes] = {}
        self._failed = ""

    def last(self) -> State:
        """The state as it was last written; a fresh one at the very first start."""
        self._kafka.make(self._names.ledger, {"cleanup.policy": "compact"})
        self._kafka.make(self._names.logs, {"retention.bytes": str(64 << 20), "retention.ms": "-1"})
        found = self._read().get(STATE_KEY)
        return from_json(json.loads(found)) if found else State()

    def _read(self) -> dict[bytes, bytes]:
        consumer = self._kafka.reader(self._names.group("ledger"))
        try:
            consumer.assign([TopicPartition(self._names.ledger, 0, 0)])
            return {r.key: r.value for r in read_to_end(consumer, self._names.ledger)}
        finally:
            consumer.close()

    def write(self, state: State) -> None:
        """Write the state down, if its durable part is not what was last written."""
        self._put(STATE_KEY, to_json(state))

    def show(self, status: dict[str, Any]) -> None:
        """Write the status row, if it changed."""
        self._put(STATUS_KEY, status)

    def tell(self, lines: Sequence[Line]) -> None:
        """Publish log lines. A line that is published again overwrites itself."""
        for line in lines:
            value = {"ts": int(line.at * 1000), "level": line.level, "msg": line.msg}
            self._produce(self._names.logs, f"{line.id:012d}".encode(), json.dumps(value).encode())
        self._flush()

    def _put(self, key: bytes, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        if self._written.get(key) != data:
            self._produce(self._names.ledger, key, data)
            self._flush()
            self._written[key] = data

    def _produce(self, topic: str, key: bytes, value: bytes) -> None:
        if self._producer is None:
            self._producer = self._kafka.producer(**{"message.timeout.ms": _WRITE_S * 1000})
        self._producer.produce(topic, value, key, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failed = error.str() if error else self._failed

    def _flush(self) -> None:
        assert self._producer is not None
        self._failed = ""
        left = self._producer.flush(_WRITE_S + 5)
        if left or self._failed:
            raise KafkaUnavailable(
                f"{self._names.ledger} was not written: {self._failed or 'no answer'}",
                hint="Check that the broker runs; it is tried again.",
            )
