"""Follows Kafka for the tables: the ledger, the log, and the changelogs of the generations that the ledger names.

Runs on a thread of its own; what it has decoded is posted to the thread that owns the tables.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from livejoin.core import rows, spec
from livejoin.core.generation import STATE_KEY, STATUS_KEY, State, from_json
from livejoin.core.names import Names
from livejoin.errors import LivejoinError
from livejoin.kafka import Kafka, Topic, batch
from livejoin.tables import decode
from livejoin.tables.host import Chunk, Host

_MOST = 10_000  # records decoded at once
_WAIT_S = 0.1
_AGAIN_S = 1.0

Post = Callable[[Callable[[], None]], object]


class Follower:
    """Feeds a host from Kafka until told to stop, whatever happens to the cluster meanwhile."""

    def __init__(self, kafka: Kafka, names: Names, host: Host, post: Post, *, logs_kept: int) -> None:
        self._kafka = kafka
        self._names = names
        self._host = host
        self._post = post
        self._logs_kept = logs_kept
        self._ledger_id = ""
        self._generations: dict[str, int] = {}  # changelog topics that are read, or will be once they exist

    def run(self, stop: threading.Event) -> None:
        """Follow. Trouble is told to the host and tried again."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except LivejoinError as error:
                why = str(error)
                self._post(lambda: self._host.trouble_with(why))
                stop.wait(_AGAIN_S)

    def _follow(self, stop: threading.Event) -> None:
        found = self._kafka.describe([self._names.ledger, self._names.logs])
        if len(found) < 2:  # nobody leads yet
            stop.wait(_AGAIN_S)
            return
        self._start_over_if_new(found[self._names.ledger])
        consumer = self._kafka.reader(self._names.group("tables"), **{"fetch.wait.max.ms": 20})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._names.logs, 0), timeout=15)
            logs_from = max(low, high - self._logs_kept)
            consumer.assign(
                [TopicPartition(self._names.ledger, 0, 0), TopicPartition(self._names.logs, 0, logs_from)]
            )
            self._generations = {}
            reading: set[str] = set()
            while not stop.is_set():
                messages = batch(consumer, _MOST, _WAIT_S)
                self._take(messages)
                reading = self._adjust(consumer, reading)
        finally:
            consumer.close()

    def _start_over_if_new(self, ledger: Topic) -> None:
        if self._ledger_id not in ("", ledger.id):
            self._post(self._host.forget)
        self._ledger_id = ledger.id
        self._post(lambda: self._host.trouble_with(""))

    def _adjust(self, consumer: Consumer, reading: set[str]) -> set[str]:
        """Read just the changelogs that are wanted, each from its beginning, once it exists."""
        wanted = self._generations.keys()
        if gone := reading - wanted:
            consumer.incremental_unassign([TopicPartition(topic, 0) for topic in gone])
        if new := self._kafka.describe(wanted - reading) if wanted - reading else {}:
            consumer.incremental_assign([TopicPartition(topic, 0, 0) for topic in new])
        return (reading - gone) | new.keys()

    def _take(self, messages: list[Message]) -> None:
        topics: dict[str, list[Message]] = defaultdict(list)
        for message in messages:
            topics[message.topic()].append(message)
        for topic, some in topics.items():
            if topic == self._names.ledger:
                self._take_ledger(some)
            elif topic == self._names.logs:
                lines = [_line(message) for message in some]
                self._post(lambda lines=lines: self._host.log(lines))
            elif topic in self._generations:
                chunk = decoded(self._generations[topic], some)
                self._post(lambda chunk=chunk: self._host.apply(chunk))

    def _take_ledger(self, messages: list[Message]) -> None:
        newest = {message.key(): json.loads(message.value()) for message in messages if message.value()}
        if STATE_KEY in newest:
            state = from_json(newest[STATE_KEY])
            self._generations = {self._names.changelog(n): n for n in _numbers(state)}
            self._post(lambda: self._host.follow(state))
        if STATUS_KEY in newest:
            self._post(lambda: self._host.show_status(newest[STATUS_KEY]))


def decoded(generation: int, messages: list[Message]) -> Chunk:
    """Changelog messages as one run of records per table."""
    ids: dict[str, list[str]] = defaultdict(list)
    values: dict[str, list[bytes]] = defaultdict(list)
    for message in messages:
        table, _, row_id = message.key().decode().partition("/")
        ids[table].append(row_id)
        values[table].append(message.value())
    tombstones = ids.pop(rows.TOMBSTONES, [])
    known = [table for table in ids if table in spec.TABLES]
    records = [(table, decode.records(table, ids[table], values[table])) for table in known]
    return Chunk(generation, messages[-1].offset() + 1, records, tombstones)


def _numbers(state: State) -> list[int]:
    return [g.number for g in (state.live, state.building) if g is not None and g.resolved]


def _line(message: Message) -> dict[str, Any]:
    line = json.loads(message.value())
    return {"ts": line["ts"], "level": line["level"], "msg": line["msg"], "_id": message.key().decode()}
