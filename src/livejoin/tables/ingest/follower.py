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
    from_json,
    refusal,
)
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka.cluster import ANSWER_S, Kafka, Topic
from livejoin.kafka.errors import forbidden
from livejoin.kafka.reading import Events, Flow, portions
from livejoin.tables.ingest.catalog import Host
from livejoin.tables.ingest.chunks import Pair, decoded
from livejoin.tables.ingest.leader_records import LeaderRecords, is_generation

log = structlog.get_logger()

_AGAIN_S = 1.0
_REACH_S = 4.0  # for the cluster to answer, before it is said that it does not
_STARTING = 5  # looks for a ledger: an orchestrator that was just started makes one in a moment
_SAY_S = 1.0

Post = Callable[[Callable[[], None]], object]


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
        self._looks = 0  # for a ledger
        self._alone = False
        self._said_at = 0.0
        # of the ledger, by key, what was read and not acted on
        self._ahead: dict[bytes, bytes] = {}
        self._ended = False  # whether it was reached just now
        self._caught_up = False  # whether it was ever reached
        self._logs_read = False
        self._records = LeaderRecords()
        # changelog topics that are read, or will be once they exist
        self._generations: dict[str, int] = {}
        self._measured: set[str] = set()  # those of them whose length was asked for
        self._building = False
        self._ids: dict[str, str] = {}  # of the changelogs that were made for their generations
        self._forbidden = ""  # a changelog that may not be read
        self._refused = ""  # why the ledger's newest state is not followed

    def run(self, stop: threading.Event) -> None:
        """Follow. Trouble is told to the host and tried again."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except (LivejoinError, KafkaException) as error:
                self._post(partial(self._host.trouble_with, str(error)))
                stop.wait(_AGAIN_S)

    def _follow(self, stop: threading.Event) -> None:
        names = self._names
        self._wait_for_kafka(stop)  # which is named sooner than that a question has no answer
        found = self._kafka.describe([names.ledger, names.logs, names.leader])
        if len(found) < 3:
            self._looks += 1
            if self._looks > _STARTING:
                self._say_that_nobody_led()
            stop.wait(_AGAIN_S)
            return
        self._start_over_if_new(found[names.ledger])
        lost = threading.Event()
        consumer = self._kafka.reader(
            self._names.group("tables"), on_lost=lost.set, fetch_wait_ms=20
        )
        try:
            consumer.assign([TopicPartition(names.ledger, 0, 0), tail(consumer, names.leader, 1)])
            if not self._refused:  # else the ledger does not tell us again what we have
                self._generations = {}
            self._measured, self._ahead = set(), {}
            self._ended = self._caught_up = self._logs_read = False
            reading: set[str] = set()
            gone: set[str] = set()

            def deleted(topic: str) -> bool:
                """A changelog may be deleted before we read in the ledger that it is not wanted."""
                gone.add(topic)
                return topic in reading

            flow = Flow(consumer, Events(deleted, self._reach_end))
            while not stop.is_set():
                self._take_all(flow.next(shown=not self._building))
                self._say_that_we_read()
                if gone:
                    consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
                    reading, gone = reading - gone, set()
                if lost.is_set():
                    self._wait_for_kafka(stop)
                    self._post(partial(self._host.trouble_with, ""))
                    lost.clear()
                self._adjust_logs(consumer)
                reading = self._adjust(consumer, reading)
        finally:
            consumer.close()

    def _say_that_nobody_led(self) -> None:
        """There is no ledger: it is waited for, and said once."""
        if not self._alone:
            self._alone = True
            why = f"there is no ledger {self._names.ledger}: waiting for an orchestrator"
            log.info("waiting for a ledger", topic=self._names.ledger, at=self._kafka.address)
            waiting = {"state": "waiting", "progress": 0, "message": why}
            self._post(partial(self._host.show_status, waiting))
        self._post(partial(self._host.trouble_with, ""))

    def _say_that_we_read(self) -> None:
        now = time.monotonic()
        if now >= self._said_at + _SAY_S:
            self._said_at = now
            self._post(self._host.signs.read)

    def _wait_for_kafka(self, stop: threading.Event) -> None:
        """What is shown grows old and says so. Afterwards a consumer goes on where it was."""
        self._forbidden = ""  # is said again where it still holds
        while not stop.is_set():
            try:
                self._kafka.wait_until_reachable(_REACH_S)
            except KafkaUnavailable as error:
                self._post(partial(self._host.trouble_with, error.message))
            else:
                return

    def _start_over_if_new(self, ledger: Topic) -> None:
        if self._ledger_id not in ("", ledger.id):
            self._post(self._host.forget)
            self._refused = ""
        if self._ledger_id != ledger.id:
            log.info("following", ledger=ledger.name, at=self._kafka.address)
        self._ledger_id, self._alone = ledger.id, False
        self._post(partial(self._host.trouble_with, ""))

    def _adjust_logs(self, consumer: Consumer) -> None:
        """Read the log while the ledger's end is known and nobody newer writes."""
        wanted, logs = self._caught_up and not self._refused, self._names.logs
        if wanted and not self._logs_read:
            # a message leaves a few lines and outcomes, and each transaction a marker
            consumer.incremental_assign([tail(consumer, logs, 4 * self._logs_kept)])
        elif self._logs_read and not wanted:
            consumer.incremental_unassign([TopicPartition(logs, 0)])
        self._logs_read = wanted

    def _adjust(self, consumer: Consumer, reading: set[str]) -> set[str]:
        """Read just the changelogs that are wanted, each from its beginning, once it exists."""
        wanted = self._generations.keys()
        if gone := reading - wanted:
            consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
        found = self._own(wanted - reading)
        if new := {topic for topic, it in found.items() if it.readable}:
            consumer.incremental_assign([TopicPartition(topic, 0, 0) for topic in new])
        self._say_what_is_forbidden(min(found.keys() - new, default=""))
        return (reading - gone) | new

    def _say_what_is_forbidden(self, changelog: str) -> None:
        if changelog != self._forbidden:
            self._forbidden = changelog
            why = str(forbidden(changelog)) if changelog else ""
            self._post(partial(self._host.trouble_with, why))

    def _reach_end(self, topic: str) -> None:
        """All that stood in a topic was read, transaction markers and holes included."""
        if topic == self._names.ledger and not self._caught_up:
            self._ended = True

    def _take_all(self, messages: list[Message]) -> None:
        """The ledger first and in one go: of what was read together only the newest counts."""
        ledger = [one for one in messages if one.topic() == self._names.ledger]
        if ledger or self._ended:
            self._take_ledger([_pair(one) for one in ledger])
        for some in portions([one for one in messages if one.topic() != self._names.ledger]):
            self._take(some)

    def _take(self, messages: list[Message]) -> None:
        topics: dict[str, list[Pair]] = defaultdict(list)
        ends: dict[str, int] = {}
        for message in messages:
            topic = message.topic() or ""
            topics[topic].append(_pair(message))
            ends[topic] = (message.offset() or 0) + 1
        for topic, some in topics.items():
            if topic == self._names.logs:
                self._take_logs(some)
            elif topic == self._names.leader:
                self._take_beats(some)
            elif topic in self._generations:
                chunk = decoded(self._generations[topic], ends[topic], some)
                self._post(partial(self._host.apply, chunk))

    def _take_beats(self, records: Sequence[Pair]) -> None:
        beats = [value for key, value in records if key == LEADER_KEY]
        if beats:
            at = None if self._refused else self._records.beat_at(self._names.leader, beats[-1])
            self._post(partial(self._host.signs.led, at))

    def _take_ledger(self, records: Sequence[Pair]) -> None:
        """Act on the newest of each key, from when on the ledger's end was first reached.

        What stood before it is the past: generations that are gone, or were not complete yet. What
        comes after it is acted on at once, together with the log lines that speak of it.
        """
        if records:
            self._post(self._host.signs.led)  # whoever writes it leads
        self._ahead.update(records)
        if not self._ended and not self._caught_up:
            return
        newest = {key: value for key, value in self._ahead.items() if value}
        self._ahead, self._ended, self._caught_up = {}, False, True
        if STATE_KEY in newest:
            self._heed_format(refusal(json.loads(newest[STATE_KEY])))
        if self._refused:
            return  # nothing more of what a newer livejoin writes is parsed
        rows = [(key, value) for key, value in newest.items() if is_generation(key)]
        if shown := self._records.generations(self._names.ledger, rows):
            self._post(partial(self._host.system.show_generations, shown))
        if STATE_KEY in newest:
            state = from_json(json.loads(newest[STATE_KEY]))
            self._building = state.building is not None
            self._generations = {self._names.changelog(n): n for n in _numbers(state)}
            self._ids = {self._names.changelog(g.number): g.changelog_id for g in state.wants}
            self._post(partial(self._host.follow, state, self._ends()))
        if STATUS_KEY in newest:
            self._post(partial(self._host.show_status, json.loads(newest[STATUS_KEY])))

    def _heed_format(self, why: str) -> None:
        if why != self._refused:
            self._refused = why
            if why:
                log.error("a newer livejoin leads; what was read before stays", why=why)
            self._post(partial(self._host.refuse, why))

    def _own(self, changelogs: Iterable[str]) -> dict[str, Topic]:
        """Those of the changelogs that exist and were made for their generations."""
        found = self._kafka.describe(changelogs) if changelogs else {}
        # before format 2 of the ledger nobody recorded ids
        return {name: it for name, it in found.items() if self._ids[name] in ("", it.id)}

    def _ends(self) -> dict[int, int]:
        """How long changelogs are that are new to us, by generation; those that exist."""
        self._measured &= self._generations.keys()
        found = self._own(self._generations.keys() - self._measured).values()
        ends = self._kafka.offsets(found, OffsetSpec.latest()) if found else {}
        self._measured |= ends.keys()
        return {self._generations[topic]: offsets[0] for topic, offsets in ends.items()}

    def _take_logs(self, records: Sequence[Pair]) -> None:
        tables = self._records.tables(self._names.logs, records)
        if spec.LOGS in tables:
            self._post(partial(self._host.system.log, tables[spec.LOGS]))
        if spec.CONTROL in tables:
            self._post(partial(self._host.system.show_control, tables[spec.CONTROL]))


def _pair(message: Message) -> Pair:
    return message.key() or b"", message.value() or b""


def tail(consumer: Consumer, topic: str, count: int) -> TopicPartition:
    """The last offsets of a topic."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=ANSWER_S)
    return TopicPartition(topic, 0, max(low, high - count))


def _numbers(state: State) -> list[int]:
    """The generations that have a changelog."""
    there = (g for g in state.wants if g.has_topics or g.ready_at is not None)
    return [generation.number for generation in there if generation.resolved]
