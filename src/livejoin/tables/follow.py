"""Follows Kafka for the tables: the ledger, the log, and the changelogs that the ledger names.

Runs on a thread of its own; what it has decoded is posted to the thread that owns the tables.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core import rows, spec
from livejoin.core.names import Names
from livejoin.core.state import GENERATION_KEY, STATE_KEY, STATUS_KEY, State, from_json
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka import Kafka, Topic, wait_until_reachable
from livejoin.reading import Flow
from livejoin.tables import decode
from livejoin.tables.host import Chunk, Host

_AGAIN_S = 1.0

Post = Callable[[Callable[[], None]], object]
Pair = tuple[bytes, bytes]  # key and value of a record


class Follower:
    """Feeds a host from Kafka until told to stop, whatever happens to the cluster meanwhile."""

    def __init__(
        self, kafka: Kafka, names: Names, host: Host, post: Post, *, logs_kept: int
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._host = host
        self._post = post
        self._logs_kept = logs_kept
        self._ledger_id = ""
        # changelog topics that are read, or will be once they exist
        self._generations: dict[str, int] = {}

    def run(self, stop: threading.Event) -> None:
        """Follow. Trouble is told to the host and tried again."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._post(partial(self._host.trouble_with, str(error)))
                stop.wait(_AGAIN_S)

    def _follow(self, stop: threading.Event) -> None:
        found = self._kafka.describe([self._names.ledger, self._names.logs])
        if len(found) < 2:  # nobody leads yet
            stop.wait(_AGAIN_S)
            return
        self._start_over_if_new(found[self._names.ledger])
        lost = threading.Event()
        consumer = self._kafka.reader(
            self._names.group("tables"), on_lost=lost.set, fetch_wait_ms=20
        )
        try:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(self._names.logs, 0), timeout=15
            )
            # a message leaves a few lines and outcomes, and each transaction a marker
            logs_from = max(low, high - 4 * self._logs_kept)
            consumer.assign(
                [
                    TopicPartition(self._names.ledger, 0, 0),
                    TopicPartition(self._names.logs, 0, logs_from),
                ]
            )
            self._generations = {}
            reading: set[str] = set()
            gone: set[str] = set()

            def deleted(topic: str) -> bool:
                """A changelog may be deleted before we read in the ledger that it is not wanted."""
                gone.add(topic)
                return topic in reading

            flow = Flow(consumer, deleted)
            while not stop.is_set():
                self._take(flow.next())
                if gone:
                    consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
                    reading, gone = reading - gone, set()
                if lost.is_set():
                    self._wait_for_kafka(stop)
                    lost.clear()
                reading = self._adjust(consumer, reading)
        finally:
            consumer.close()

    def _wait_for_kafka(self, stop: threading.Event) -> None:
        """What is shown grows old and says so. Afterwards the consumer goes on where it was."""
        while not stop.is_set():
            try:
                wait_until_reachable(self._kafka, _AGAIN_S)
                break
            except KafkaUnavailable as error:
                self._post(partial(self._host.trouble_with, error.message))
        self._post(partial(self._host.trouble_with, ""))

    def _start_over_if_new(self, ledger: Topic) -> None:
        if self._ledger_id not in ("", ledger.id):
            self._post(self._host.forget)
        self._ledger_id = ledger.id
        self._post(partial(self._host.trouble_with, ""))

    def _adjust(self, consumer: Consumer, reading: set[str]) -> set[str]:
        """Read just the changelogs that are wanted, each from its beginning, once it exists."""
        wanted = self._generations.keys()
        if gone := reading - wanted:
            consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
        if new := self._kafka.describe(wanted - reading) if wanted - reading else {}:
            consumer.incremental_assign([TopicPartition(topic, 0, 0) for topic in new])
        return (reading - gone) | new.keys()

    def _take(self, messages: list[Message]) -> None:
        topics: dict[str, list[Pair]] = defaultdict(list)
        ends: dict[str, int] = {}
        for message in messages:
            topic = message.topic() or ""
            topics[topic].append((message.key() or b"", message.value() or b""))
            ends[topic] = (message.offset() or 0) + 1
        for topic, some in topics.items():
            if topic == self._names.ledger:
                self._take_ledger(some)
            elif topic == self._names.logs:
                self._take_logs(some)
            elif topic in self._generations:
                chunk = decoded(self._generations[topic], ends[topic], some)
                self._post(partial(self._host.apply, chunk))

    def _take_ledger(self, records: Sequence[Pair]) -> None:
        newest = {key: json.loads(value) for key, value in records if value}
        rows = {
            row["generation"]: row for key, row in newest.items() if key.startswith(GENERATION_KEY)
        }
        if rows:
            self._post(partial(self._host.system.show_generations, rows))
        if STATE_KEY in newest:
            state = from_json(newest[STATE_KEY])
            known = self._generations.keys()
            self._generations = {self._names.changelog(n): n for n in _numbers(state)}
            ends = self._ends(self._generations.keys() - known)
            self._post(partial(self._host.follow, state, ends))
        if STATUS_KEY in newest:
            self._post(partial(self._host.show_status, newest[STATUS_KEY]))

    def _ends(self, changelogs: Iterable[str]) -> dict[int, int]:
        """How long changelogs are that are new to us, by generation."""
        found = self._kafka.describe(changelogs).values() if changelogs else ()
        ends = self._kafka.offsets(found, OffsetSpec.latest()) if found else {}
        return {self._generations[topic]: offsets[0] for topic, offsets in ends.items()}

    def _take_logs(self, records: Sequence[Pair]) -> None:
        tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for key, value in records:
            table, _, row_id = key.decode().partition("/")
            tables[table].append({**json.loads(value), "_id": row_id})
        if spec.LOGS in tables:
            self._post(partial(self._host.system.log, tables[spec.LOGS]))
        if spec.CONTROL in tables:
            self._post(partial(self._host.system.show_control, tables[spec.CONTROL]))


def decoded(generation: int, seq: int, records: Sequence[Pair]) -> Chunk:
    """Records of a changelog up to `seq` as one run per table."""
    ids: dict[str, list[str]] = defaultdict(list)
    values: dict[str, list[bytes]] = defaultdict(list)
    for key, value in records:
        table, _, row_id = key.decode().partition("/")
        ids[table].append(row_id)
        values[table].append(value)
    tombstones = ids.pop(rows.TOMBSTONES, [])
    known = [table for table in ids if table in spec.TABLES]
    runs = [(table, decode.records(table, ids[table], values[table])) for table in known]
    return Chunk(generation, seq, runs, tombstones)


def _numbers(state: State) -> list[int]:
    return [generation.number for generation in state.wants if generation.resolved]
