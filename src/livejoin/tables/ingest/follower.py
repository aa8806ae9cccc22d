"""Follows Kafka for the tables: the ledger, the log, and the changelogs that the ledger names.

Runs on its own thread, and posts what it has decoded to the event loop, which owns the tables.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Generation
from livejoin.core.ledger_format import NewerState
from livejoin.core.names import Names
from livejoin.core.state import LEADER_KEY, STATE_KEY, STATUS_KEY, State
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka, Topic
from livejoin.kafka.records import BatchReader, ReaderEvents, split_by_size
from livejoin.kafka.topic_errors import topic_not_authorized
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.decode import RawRecord, decoder
from livejoin.tables.ingest.system_tables import LeaderRecordParser, is_generation_key

log = structlog.get_logger()

_RETRY_S = 1.0
_CONNECT_TIMEOUT_S = 4.0  # before Kafka is reported as unreachable
# lookups for a ledger before it is reported missing: a leader that just started creates it soon
_QUIET_LOOKUPS = 5
_REPORT_INTERVAL_S = 1.0

Post = Callable[[Callable[[], None]], object]  # runs something on the event loop's thread


class LedgerFollower:
    """Feeds a catalog from Kafka until stopped; retries whatever fails."""

    def __init__(
        self, kafka: Kafka, names: Names, catalog: Catalog, post: Post, *, logs_kept: int
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._catalog = catalog
        self._post = post
        self._logs_kept = logs_kept
        self._ledger_id = ""
        self._ledger_lookups = 0
        self._reported_missing_ledger = False
        self._reported_at = 0.0
        self._pending_ledger: dict[bytes, bytes] = {}  # read and not applied yet, by key
        self._at_ledger_end = False  # whether its end was just reached
        self._caught_up = False  # whether its end was ever reached
        self._logs_assigned = False
        self._parser = LeaderRecordParser()
        self._changelogs = ChangelogAssignment(kafka, names)
        self._building = False
        self._unauthorized = ""  # a changelog that is not authorized
        self._newer_format = ""  # why the ledger's newest state is not followed

    def run(self, stop: threading.Event) -> None:
        """Follow until stopped. Errors are reported to the catalog and retried."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._post(partial(self._catalog.set_trouble, str(error)))
                stop.wait(_RETRY_S)

    def _follow(self, stop: threading.Event) -> None:
        names, changelogs = self._names, self._changelogs
        self._wait_for_kafka(stop)  # reports an outage sooner than a timed-out request would
        topics = self._kafka.describe([names.ledger, names.logs, names.leader])
        if len(topics) < 3:
            self._ledger_lookups += 1
            if self._ledger_lookups > _QUIET_LOOKUPS:
                self._report_missing_ledger()
            stop.wait(_RETRY_S)
            return
        self._reset_if_ledger_replaced(topics[names.ledger])
        lost = threading.Event()
        consumer = self._kafka.reader(names.group("tables"), on_lost=lost.set, fetch_wait_ms=20)
        try:
            consumer.assign(
                [TopicPartition(names.ledger, 0, 0), tail_position(consumer, names.leader, 1)]
            )
            # a ledger of a newer format is not parsed, so it does not name the changelogs again
            changelogs.start(keep=bool(self._newer_format))
            self._pending_ledger = {}
            self._at_ledger_end = self._caught_up = self._logs_assigned = False
            events = ReaderEvents(changelogs.on_unreadable, self._on_partition_end)
            batches = BatchReader(consumer, events)
            while not stop.is_set():
                self._process(batches.next_batch(shown=not self._building))
                self._report_read()
                changelogs.unassign_unreadable(consumer)
                if lost.is_set():
                    self._wait_for_kafka(stop)
                    self._post(partial(self._catalog.set_trouble, ""))
                    lost.clear()
                self._assign_logs(consumer)
                self._report_unauthorized(changelogs.assign(consumer))
        finally:
            consumer.close()

    def _report_missing_ledger(self) -> None:
        """Report once that there is no ledger to follow."""
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
        """Wait until Kafka answers; meanwhile the rows are marked stale."""
        self._unauthorized = ""  # reported again if it is still so
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
        """Read the log once the ledger was read to its end, unless its format is newer."""
        wanted, logs = self._caught_up and not self._newer_format, self._names.logs
        if wanted and not self._logs_assigned:
            # a control message leaves several records, and each transaction a marker
            consumer.incremental_assign([tail_position(consumer, logs, 4 * self._logs_kept)])
        elif self._logs_assigned and not wanted:
            consumer.incremental_unassign([TopicPartition(logs, 0)])
        self._logs_assigned = wanted

    def _report_unauthorized(self, changelog: str) -> None:
        if changelog != self._unauthorized:
            self._unauthorized = changelog
            why = str(topic_not_authorized(changelog)) if changelog else ""
            self._post(partial(self._catalog.set_trouble, why))

    def _on_partition_end(self, topic: str, _offset: int) -> None:
        """Everything in a topic was read, including transaction markers and gaps."""
        if topic == self._names.ledger and not self._caught_up:
            self._at_ledger_end = True

    def _process(self, messages: list[Message]) -> None:
        """Process a batch: the ledger first and as a whole, since only its newest state counts."""
        ledger = [message for message in messages if message.topic() == self._names.ledger]
        if ledger or self._at_ledger_end:
            self._process_ledger([_raw_record(message) for message in ledger])
        others = [message for message in messages if message.topic() != self._names.ledger]
        for portion in split_by_size(others):
            self._process_portion(portion)

    def _process_portion(self, messages: list[Message]) -> None:
        by_topic: dict[str, list[RawRecord]] = defaultdict(list)
        ends: dict[str, int] = {}
        for message in messages:
            topic = message.topic() or ""
            by_topic[topic].append(_raw_record(message))
            ends[topic] = (message.offset() or 0) + 1
        generations = self._changelogs.generations
        for topic, records in by_topic.items():
            if topic == self._names.logs:
                self._process_logs(records)
            elif topic == self._names.leader:
                self._process_heartbeats(records)
            elif topic in generations:
                generation = generations[topic]
                chunk = decoder(generation.spec).decode_chunk(
                    generation.number, ends[topic], records
                )
                self._post(partial(self._catalog.apply, chunk))

    def _process_heartbeats(self, records: Sequence[RawRecord]) -> None:
        heartbeats = [value for key, value in records if key == LEADER_KEY]
        if not heartbeats:
            return
        at_ms = None
        if not self._newer_format:
            at_ms = self._parser.parse_heartbeat(self._names.leader, heartbeats[-1])
        self._post(partial(self._catalog.liveness.record_leader, at_ms))

    def _process_ledger(self, records: Sequence[RawRecord]) -> None:
        """Apply the newest record of each key, once the ledger's end was reached.

        Earlier states are history: their generations are gone, or were not complete yet. After
        that, records are applied at once, together with the log lines that refer to them.
        """
        if records:
            self._post(self._catalog.liveness.record_leader)  # only a leader writes the ledger
        self._pending_ledger.update(records)
        if not self._at_ledger_end and not self._caught_up:
            return
        newest = {key: value for key, value in self._pending_ledger.items() if value}
        self._pending_ledger, self._at_ledger_end, self._caught_up = {}, False, True
        found: State | NewerState | None = None
        if STATE_KEY in newest:
            found = self._parser.parse_state(self._names.ledger, newest[STATE_KEY])
            if found is not None:
                self._check_format(found.why if isinstance(found, NewerState) else "")
        if self._newer_format:
            return  # records of a newer format are not parsed
        rows = [(key, value) for key, value in newest.items() if is_generation_key(key)]
        if generations := self._parser.parse_generations(self._names.ledger, rows):
            self._post(partial(self._catalog.system.put_generations, generations))
        if isinstance(found, State):
            self._building = found.building is not None
            ends = self._changelogs.follow(found)
            self._post(partial(self._catalog.apply_state, found, ends))
        if STATUS_KEY in newest:
            status = self._parser.parse_status(self._names.ledger, newest[STATUS_KEY])
            if status is not None:
                self._post(partial(self._catalog.set_status, status))

    def _check_format(self, why: str) -> None:
        if why != self._newer_format:
            self._newer_format = why
            if why:
                log.error("a newer livejoin leads; serving the rows read so far", why=why)
            self._post(partial(self._catalog.set_newer_format, why))

    def _process_logs(self, records: Sequence[RawRecord]) -> None:
        tables = self._parser.parse_logs(self._names.logs, records)
        if spec.LOGS in tables:
            self._post(partial(self._catalog.system.add_log_lines, tables[spec.LOGS]))
        if spec.CONTROL in tables:
            self._post(partial(self._catalog.system.put_control_messages, tables[spec.CONTROL]))


class ChangelogAssignment:
    """Assigns the changelogs that the ledger names, each from its start, once it exists."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._names = names
        # by changelog, including those that do not exist yet
        self.generations: dict[str, Generation] = {}
        self._topic_ids: dict[str, str] = {}  # of the topics created for their generations
        self._measured: set[str] = set()  # changelogs whose end offset was asked for
        self._assigned: set[str] = set()
        self._unreadable: set[str] = set()

    def start(self, *, keep: bool) -> None:
        """Begin with a new consumer; `keep` the changelogs if the ledger is not parsed again."""
        if not keep:
            self.generations = {}
        self._measured, self._assigned, self._unreadable = set(), set(), set()

    def follow(self, state: State) -> dict[int, int]:
        """Follow the ledger's state; returns the end offsets of new changelogs by generation."""
        changelog = self._names.changelog
        self.generations = {changelog(g.number): g for g in _with_changelog(state)}
        self._topic_ids = {changelog(g.number): g.changelog_id for g in state.generations}
        self._measured &= self.generations.keys()
        new = self._existing(self.generations.keys() - self._measured).values()
        ends = self._kafka.offsets(new, OffsetSpec.latest()) if new else {}
        self._measured |= ends.keys()
        return {self.generations[topic].number: offsets[0] for topic, offsets in ends.items()}

    def on_unreadable(self, topic: str) -> bool:
        """Note that a topic cannot be read any more; returns whether that is harmless.

        A changelog may be deleted before the ledger's record of it was read.
        """
        self._unreadable.add(topic)
        return topic in self._assigned

    def unassign_unreadable(self, consumer: Consumer) -> None:
        """Stop reading changelogs that cannot be read any more."""
        if self._unreadable:
            consumer.incremental_unassign([TopicPartition(t, 0) for t in self._unreadable])
            self._assigned -= self._unreadable
            self._unreadable = set()

    def assign(self, consumer: Consumer) -> str:
        """Update the assignment; returns a changelog that is not authorized, or empty."""
        wanted = self.generations.keys()
        if unwanted := self._assigned - wanted:
            consumer.incremental_unassign([TopicPartition(topic, 0) for topic in unwanted])
        existing = self._existing(wanted - self._assigned)
        if new := {name for name, topic in existing.items() if topic.readable}:
            consumer.incremental_assign([TopicPartition(topic, 0, 0) for topic in new])
        self._assigned = (self._assigned - unwanted) | new
        return min(existing.keys() - new, default="")

    def _existing(self, changelogs: Iterable[str]) -> dict[str, Topic]:
        """Those of the changelogs that exist and were created for their generations."""
        topics = self._kafka.describe(changelogs) if changelogs else {}
        # ledgers before format 2 have no topic IDs
        return {
            name: topic for name, topic in topics.items() if self._topic_ids[name] in ("", topic.id)
        }


def tail_position(consumer: Consumer, topic: str, count: int) -> TopicPartition:
    """Where to start to read the last `count` offsets of a topic's only partition."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=REQUEST_TIMEOUT_S)
    return TopicPartition(topic, 0, max(low, high - count))


def _raw_record(message: Message) -> RawRecord:
    return message.key() or b"", message.value() or b""


def _with_changelog(state: State) -> list[Generation]:
    """The generations that have a changelog."""
    created = (g for g in state.generations if g.has_topics or g.ready_at is not None)
    return [generation for generation in created if generation.resolved]
