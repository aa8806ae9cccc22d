"""Follows Kafka for the tables: the ledger, the log, and the changelogs that the ledger names.

Runs on a thread of its own; what it has decoded is posted to the thread that owns the tables.
"""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.names import Names
from livejoin.core.state import (
    LEADER_KEY,
    STATE_KEY,
    STATUS_KEY,
    State,
    format_error,
    from_json,
)
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka, Topic
from livejoin.kafka.errors import topic_not_authorized
from livejoin.kafka.reading import BatchReader, ReaderEvents, split_by_size
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.decode import RawRecord, decode_chunk
from livejoin.tables.ingest.leader_records import LeaderRecordParser, is_generation_key

log = structlog.get_logger()

_RETRY_S = 1.0
_CONNECT_TIMEOUT_S = 4.0  # for the cluster to answer, before it is said that it does not
_QUIET_LOOKUPS = (
    5  # looks for a ledger: an orchestrator that was just started makes one in a moment
)
_REPORT_INTERVAL_S = 1.0

Post = Callable[[Callable[[], None]], object]


class LedgerFollower:
    """Feeds a host from Kafka until told to stop, whatever happens to the cluster meanwhile."""

    def __init__(
        self, kafka: Kafka, names: Names, host: Catalog, post: Post, *, logs_kept: int
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._catalog = host
        self._post = post
        self._logs_kept = logs_kept
        self._ledger_id = ""
        self._ledger_lookups = 0  # for a ledger
        self._reported_missing_ledger = False
        self._reported_at = 0.0
        # of the ledger, by key, what was read and not acted on
        self._pending_ledger: dict[bytes, bytes] = {}
        self._at_ledger_end = False  # whether it was reached just now
        self._caught_up = False  # whether it was ever reached
        self._logs_assigned = False
        self._parser = LeaderRecordParser()
        # changelog topics that are read, or will be once they exist
        self._changelogs: dict[str, int] = {}
        self._measured: set[str] = set()  # those of them whose length was asked for
        self._building = False
        self._changelog_ids: dict[
            str, str
        ] = {}  # of the changelogs that were made for their generations
        self._unauthorized = ""  # a changelog that may not be read
        self._newer_format = ""  # why the ledger's newest state is not followed

    def run(self, stop: threading.Event) -> None:
        """Follow. Trouble is told to the host and tried again."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._post(partial(self._catalog.set_trouble, str(error)))
                stop.wait(_RETRY_S)

    def _follow(self, stop: threading.Event) -> None:
        names = self._names
        self._wait_for_kafka(stop)  # which is named sooner than that a question has no answer
        found = self._kafka.describe([names.ledger, names.logs, names.leader])
        if len(found) < 3:
            self._ledger_lookups += 1
            if self._ledger_lookups > _QUIET_LOOKUPS:
                self._report_missing_ledger()
            stop.wait(_RETRY_S)
            return
        self._reset_if_ledger_replaced(found[names.ledger])
        lost = threading.Event()
        consumer = self._kafka.reader(
            self._names.group("tables"), on_lost=lost.set, fetch_wait_ms=20
        )
        try:
            consumer.assign(
                [TopicPartition(names.ledger, 0, 0), tail_position(consumer, names.leader, 1)]
            )
            if not self._newer_format:  # else the ledger does not tell us again what we have
                self._changelogs = {}
            self._measured, self._pending_ledger = set(), {}
            self._at_ledger_end = self._caught_up = self._logs_assigned = False
            reading: set[str] = set()
            gone: set[str] = set()

            def deleted(topic: str) -> bool:
                """A changelog may be deleted before we read in the ledger that it is not wanted."""
                gone.add(topic)
                return topic in reading

            flow = BatchReader(consumer, ReaderEvents(deleted, self._on_partition_end))
            while not stop.is_set():
                self._process(flow.next_batch(shown=not self._building))
                self._report_read()
                if gone:
                    consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
                    reading, gone = reading - gone, set()
                if lost.is_set():
                    self._wait_for_kafka(stop)
                    self._post(partial(self._catalog.set_trouble, ""))
                    lost.clear()
                self._assign_logs(consumer)
                reading = self._assign_changelogs(consumer, reading)
        finally:
            consumer.close()

    def _report_missing_ledger(self) -> None:
        """There is no ledger: it is waited for, and said once."""
        if not self._reported_missing_ledger:
            self._reported_missing_ledger = True
            why = f"there is no ledger {self._names.ledger}: waiting for an orchestrator"
            log.info("waiting for a ledger", topic=self._names.ledger, at=self._kafka.address)
            waiting = {"state": "waiting", "progress": 0, "message": why}
            self._post(partial(self._catalog.set_status, waiting))
        self._post(partial(self._catalog.set_trouble, ""))

    def _report_read(self) -> None:
        now = time.monotonic()
        if now >= self._reported_at + _REPORT_INTERVAL_S:
            self._reported_at = now
            self._post(self._catalog.liveness.record_read)

    def _wait_for_kafka(self, stop: threading.Event) -> None:
        """What is shown grows old and says so. Afterwards a consumer goes on where it was."""
        self._unauthorized = ""  # is said again where it still holds
        while not stop.is_set():
            try:
                self._kafka.wait_until_reachable(_CONNECT_TIMEOUT_S)
            except KafkaUnavailable as error:
                self._post(partial(self._catalog.set_trouble, error.message))
            else:
                return

    def _reset_if_ledger_replaced(self, ledger: Topic) -> None:
        if self._ledger_id not in ("", ledger.id):
            self._post(self._catalog.reset)
            self._newer_format = ""
        if self._ledger_id != ledger.id:
            log.info("following", ledger=ledger.name, at=self._kafka.address)
        self._ledger_id, self._reported_missing_ledger = ledger.id, False
        self._post(partial(self._catalog.set_trouble, ""))

    def _assign_logs(self, consumer: Consumer) -> None:
        """Read the log while the ledger's end is known and nobody newer writes."""
        wanted, logs = self._caught_up and not self._newer_format, self._names.logs
        if wanted and not self._logs_assigned:
            # a message leaves a few lines and outcomes, and each transaction a marker
            consumer.incremental_assign([tail_position(consumer, logs, 4 * self._logs_kept)])
        elif self._logs_assigned and not wanted:
            consumer.incremental_unassign([TopicPartition(logs, 0)])
        self._logs_assigned = wanted

    def _assign_changelogs(self, consumer: Consumer, reading: set[str]) -> set[str]:
        """Read just the changelogs that are wanted, each from its beginning, once it exists."""
        wanted = self._changelogs.keys()
        if gone := reading - wanted:
            consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
        found = self._existing_changelogs(wanted - reading)
        if new := {topic for topic, it in found.items() if it.readable}:
            consumer.incremental_assign([TopicPartition(topic, 0, 0) for topic in new])
        self._report_unauthorized(min(found.keys() - new, default=""))
        return (reading - gone) | new

    def _report_unauthorized(self, changelog: str) -> None:
        if changelog != self._unauthorized:
            self._unauthorized = changelog
            why = str(topic_not_authorized(changelog)) if changelog else ""
            self._post(partial(self._catalog.set_trouble, why))

    def _on_partition_end(self, topic: str) -> None:
        """All that stood in a topic was read, transaction markers and holes included."""
        if topic == self._names.ledger and not self._caught_up:
            self._at_ledger_end = True

    def _process(self, messages: list[Message]) -> None:
        """The ledger first and in one go: of what was read together only the newest counts."""
        ledger = [one for one in messages if one.topic() == self._names.ledger]
        if ledger or self._at_ledger_end:
            self._process_ledger([_raw_record(one) for one in ledger])
        for some in split_by_size([one for one in messages if one.topic() != self._names.ledger]):
            self._process_portion(some)

    def _process_portion(self, messages: list[Message]) -> None:
        topics: dict[str, list[RawRecord]] = defaultdict(list)
        ends: dict[str, int] = {}
        for message in messages:
            topic = message.topic() or ""
            topics[topic].append(_raw_record(message))
            ends[topic] = (message.offset() or 0) + 1
        for topic, some in topics.items():
            if topic == self._names.logs:
                self._process_logs(some)
            elif topic == self._names.leader:
                self._process_heartbeats(some)
            elif topic in self._changelogs:
                chunk = decode_chunk(self._changelogs[topic], ends[topic], some)
                self._post(partial(self._catalog.apply, chunk))

    def _process_heartbeats(self, records: Sequence[RawRecord]) -> None:
        beats = [value for key, value in records if key == LEADER_KEY]
        if beats:
            at = (
                None
                if self._newer_format
                else self._parser.parse_heartbeat(self._names.leader, beats[-1])
            )
            self._post(partial(self._catalog.liveness.record_leader, at))

    def _process_ledger(self, records: Sequence[RawRecord]) -> None:
        """Act on the newest of each key, from when on the ledger's end was first reached.

        What stood before it is the past: generations that are gone, or were not complete yet. What
        comes after it is acted on at once, together with the log lines that speak of it.
        """
        if records:
            self._post(self._catalog.liveness.record_leader)  # whoever writes it leads
        self._pending_ledger.update(records)
        if not self._at_ledger_end and not self._caught_up:
            return
        newest = {key: value for key, value in self._pending_ledger.items() if value}
        self._pending_ledger, self._at_ledger_end, self._caught_up = {}, False, True
        if STATE_KEY in newest:
            self._check_format(format_error(json.loads(newest[STATE_KEY])))
        if self._newer_format:
            return  # nothing more of what a newer livejoin writes is parsed
        rows = [(key, value) for key, value in newest.items() if is_generation_key(key)]
        if shown := self._parser.parse_generations(self._names.ledger, rows):
            self._post(partial(self._catalog.system.put_generations, shown))
        if STATE_KEY in newest:
            state = from_json(json.loads(newest[STATE_KEY]))
            self._building = state.building is not None
            self._changelogs = {self._names.changelog(n): n for n in _numbers_with_changelog(state)}
            self._changelog_ids = {
                self._names.changelog(g.number): g.changelog_id for g in state.generations
            }
            self._post(partial(self._catalog.apply_state, state, self._new_changelog_ends()))
        if STATUS_KEY in newest:
            self._post(partial(self._catalog.set_status, json.loads(newest[STATUS_KEY])))

    def _check_format(self, why: str) -> None:
        if why != self._newer_format:
            self._newer_format = why
            if why:
                log.error("a newer livejoin leads; what was read before stays", why=why)
            self._post(partial(self._catalog.set_newer_format, why))

    def _existing_changelogs(self, changelogs: Iterable[str]) -> dict[str, Topic]:
        """Those of the changelogs that exist and were made for their generations."""
        found = self._kafka.describe(changelogs) if changelogs else {}
        # before format 2 of the ledger nobody recorded ids
        return {name: it for name, it in found.items() if self._changelog_ids[name] in ("", it.id)}

    def _new_changelog_ends(self) -> dict[int, int]:
        """How long changelogs are that are new to us, by generation; those that exist."""
        self._measured &= self._changelogs.keys()
        found = self._existing_changelogs(self._changelogs.keys() - self._measured).values()
        ends = self._kafka.offsets(found, OffsetSpec.latest()) if found else {}
        self._measured |= ends.keys()
        return {self._changelogs[topic]: offsets[0] for topic, offsets in ends.items()}

    def _process_logs(self, records: Sequence[RawRecord]) -> None:
        tables = self._parser.parse_logs(self._names.logs, records)
        if spec.LOGS in tables:
            self._post(partial(self._catalog.system.add_log_lines, tables[spec.LOGS]))
        if spec.CONTROL in tables:
            self._post(partial(self._catalog.system.put_control_messages, tables[spec.CONTROL]))


def _raw_record(message: Message) -> RawRecord:
    return message.key() or b"", message.value() or b""


def tail_position(consumer: Consumer, topic: str, count: int) -> TopicPartition:
    """The last offsets of a topic."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=REQUEST_TIMEOUT_S)
    return TopicPartition(topic, 0, max(low, high - count))


def _numbers_with_changelog(state: State) -> list[int]:
    """The generations that have a changelog."""
    there = (g for g in state.generations if g.has_topics or g.ready_at is not None)
    return [generation.number for generation in there if generation.resolved]
