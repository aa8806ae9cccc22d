"""The ledger: state, status rows, log lines and replies, written in one transaction.

So a crash neither loses nor duplicates a line, and a former leader is fenced. A transaction cannot
span clusters: replies that go to another one are kept here until that has acknowledged them.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, assert_never

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from livejoin.control.leader_topics import OwnTopics
from livejoin.control.leadership import LeaderHeartbeat
from livejoin.control.replies import PendingReply, ReplySender
from livejoin.core import spec, status_rows
from livejoin.core.ledger_format import NewerState, read_state, to_json
from livejoin.core.names import Names
from livejoin.core.state import (
    GENERATION_KEY,
    REPLY_KEY,
    STATE_KEY,
    STATUS_KEY,
    EndedGeneration,
    LogLine,
    OutboxItem,
    Reply,
    State,
    row_id,
)
from livejoin.errors import (
    KafkaUnavailable,
    LeadershipLost,
    LedgerUnreadable,
    LedgerUnwritable,
    NewerFormat,
    NotAuthorized,
    TopicMisconfigured,
)
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end
from livejoin.runtime import failpoints

log = structlog.get_logger()

# Names with an underscore are errors of librdkafka itself, not private.
_FENCED = (
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
_FENCE_S = 10  # to fence the previous leader
_WRITE_S = 4  # an unfinished commit continues at the next attempt; stopping is possible between
_CHECK_S = 5.0  # between checks of the topics

_COMPACTED = "cleanup.policy", "compact"  # as core/own_topics.py has the ledger


class _PendingRecord(NamedTuple):
    """A record to write; without a value it is a tombstone."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Ledger:
    """Reads the last state; writes new states with their rows and outbox, if changed."""

    def __init__(
        self,
        kafka: Kafka,
        names: Names,
        clock: Callable[[], float] = time.monotonic,
        *,
        replies: ReplySender | None = None,
    ) -> None:
        """`replies` sends replies to another cluster; without it they are in the transaction."""
        self._kafka = kafka
        self._names = names
        self._heartbeat = LeaderHeartbeat(kafka, names, clock)
        self._producer: Producer | None = None
        self._replies = replies
        self._unsent: dict[bytes, PendingReply] = {}  # left by a leader with another cluster
        self._topics = OwnTopics(kafka, names, with_replies=replies is None)
        self._written: dict[bytes, bytes | None] = {}
        self._pending: Literal["", "commit", "abort"] = ""  # how an unfinished transaction ends

    def take_over(self) -> State:
        """Fence earlier leaders, then read the last state."""
        names = self._names
        self.check()
        self._topics.create_missing()
        self._producer = self._kafka.producer(**{"transactional.id": names.leader})
        try:
            self._producer.init_transactions(_FENCE_S)
        except KafkaException as error:
            raise KafkaUnavailable(f"{names.ledger} cannot be written: {error}") from error
        failpoints.visit("after-lead")
        records = self._read()  # again: the previous leader may have been a newer version
        state = self._parse_state(records)
        self._ensure_compacted(empty=state is None)
        self._topics.ensure_single_partition()
        self._topics.record_ids()
        self._resume_replies(records)
        return state or State()

    def check(self) -> None:
        """Raise if the topics cannot be used, before anything is written or anyone is fenced."""
        if self._names.ledger in self._kafka.describe([self._names.ledger]):
            self._read_state()  # raises if a newer version wrote it
        self._topics.check()

    def _read_state(self) -> State | None:
        """The state, if there is one; an error if a newer version or another program wrote it."""
        return self._parse_state(self._read())

    def _parse_state(self, records: Mapping[bytes, bytes]) -> State | None:
        value = records.get(STATE_KEY)
        if not value:  # none yet, or a tombstone
            return None
        found = read_state(value)
        if isinstance(found, NewerState):
            raise NewerFormat(f"{self._names.ledger}: {found.why}")
        if found is None:
            raise LedgerUnreadable(
                f"{self._names.ledger} has a state that cannot be parsed: {value[:100]!r}",
                hint="Another program wrote it. Stop livejoin and delete the topic:"
                " it is recreated, and the live choice rebuilt.",
            )
        return found

    def _resume_replies(self, records: Mapping[bytes, bytes]) -> None:
        """Take over the replies that no cluster has acknowledged yet."""
        found = {k: v for k, v in sorted(records.items()) if k.startswith(REPLY_KEY) and v}
        self._unsent = {key: PendingReply.from_json(key, value) for key, value in found.items()}
        if self._replies is not None:
            self._replies.add(self._unsent.values())
            self._unsent = {}

    def _ensure_compacted(self, *, empty: bool) -> None:
        """Make the ledger compacted: one that a broker auto-created would expire its records."""
        ledger, (name, value) = self._names.ledger, _COMPACTED
        several = len(self._kafka.describe([ledger])[ledger].partitions) > 1
        if empty and (several or self._kafka.topic_config(ledger, name) not in (None, value)):
            own_topics.recreate(self._kafka, ledger, "ledger")
        elif several:
            raise TopicMisconfigured(
                f"{ledger} has more than one partition",
                hint="Stop livejoin and delete it: it is recreated, and the live choice rebuilt.",
            )
        elif not self._kafka.ensure_topic_config(ledger, name, value):
            log.warning("the ledger is not compacted: its state may expire", topic=ledger)

    def watch(self, stop: threading.Event) -> None:
        """Until stopped, raise if a topic that the leader writes was deleted or replaced."""
        while not stop.wait(_CHECK_S):
            with contextlib.suppress(KafkaUnavailable):  # reported elsewhere; writing is retried
                self._topics.check_unchanged()

    def _read(self) -> dict[bytes, bytes]:
        consumer = self._kafka.reader(self._names.group("ledger"))
        try:
            consumer.assign([TopicPartition(self._names.ledger, 0, 0)])
            return {r.key: r.value for r in read_to_end(consumer, self._names.ledger)}
        finally:
            consumer.close()

    def write(self, state: State) -> State:
        """Write all changes in one transaction; the state with an empty outbox."""
        acknowledged: Sequence[bytes] = ()
        if self._replies is not None and self._pending != "commit":
            acknowledged = self._replies.acknowledged()
        records = [*self._settled_replies(acknowledged), *self._changed_records(state)]
        if records:
            failpoints.visit("before-ledger")
            self._commit(records)
            failpoints.visit("after-ledger")
            in_ledger = [r for r in records if r.topic == self._names.ledger]
            self._written.update(
                (r.key, r.value) for r in in_ledger if not r.key.startswith(REPLY_KEY)
            )
            self._unsent = {}
        if self._replies is not None:
            self._replies.forget(acknowledged)
            self._replies.add(PendingReply.of(i) for i in state.outbox if isinstance(i, Reply))
        self._heartbeat.send_if_due()  # writing succeeded, or was not needed: this process leads
        for item in state.outbox:
            if isinstance(item, LogLine):
                _log_to_console(item)
        return replace(state, outbox=()) if state.outbox else state

    def _changed_records(self, state: State) -> Iterator[_PendingRecord]:
        ledger = self._names.ledger
        rows = status_rows.generation_rows(state)
        status = {**status_rows.status_row(state), "stale": status_rows.stale_reason(state)}
        current = {STATE_KEY: to_json(state), STATUS_KEY: status}
        current |= {_generation_key(number): row for number, row in rows.items()}
        for item in state.outbox:
            yield from self._outbox_records(state, item)
        for key, value in current.items():
            data = _json(value)
            if self._written.get(key) != data:
                yield _PendingRecord(ledger, key, data)
        oldest = _generation_key(state.last_number - spec.GENERATIONS_KEPT)
        if state.last_number > spec.GENERATIONS_KEPT and oldest not in self._written:
            yield _PendingRecord(ledger, oldest, None)

    def _outbox_records(self, state: State, item: OutboxItem) -> Iterator[_PendingRecord]:
        names = self._names
        match item:
            case LogLine():
                key = f"{spec.LOGS}/{row_id(item.id)}".encode()
                yield _PendingRecord(names.logs, key, _json(item.row()))
            case Reply():
                key = f"{spec.CONTROL}/{item.row_id}".encode()
                yield _PendingRecord(names.logs, key, _json(item.control_raw_row(state.spec)))
                reply = PendingReply.of(item)
                if self._replies is None:
                    yield _PendingRecord(names.replies, reply.key, reply.value, reply.headers)
                else:
                    yield _PendingRecord(names.ledger, reply.ledger_key, reply.to_json())
            case EndedGeneration(generation):
                yield _PendingRecord(
                    names.ledger,
                    _generation_key(generation.number),
                    _json(status_rows.ended_row(item)),
                )
            case _:
                assert_never(item)

    def _settled_replies(self, acknowledged: Iterable[bytes]) -> Iterator[_PendingRecord]:
        """Remove acknowledged replies; write those that were left for a cluster that is gone."""
        for reply in self._unsent.values():
            yield _PendingRecord(self._names.replies, reply.key, reply.value, reply.headers)
        for key in (*acknowledged, *self._unsent):
            yield _PendingRecord(self._names.ledger, key, None)

    def _commit(self, records: list[_PendingRecord]) -> None:
        producer = self._producer
        assert producer is not None, "take_over() comes first"
        try:
            if self._pending == "abort":
                producer.abort_transaction(_WRITE_S)
            if self._pending != "commit":  # an unfinished commit already holds these records
                self._pending = "abort"
                producer.begin_transaction()
                for record in records:
                    headers = list[tuple[str, str | bytes | None]](record.headers)
                    producer.produce(record.topic, record.value, record.key, headers=headers)
                failpoints.visit("in-ledger")
                self._pending = "commit"
            producer.commit_transaction(_WRITE_S)
            self._pending = ""
        except KafkaException as error:
            raise self._translate_error(error.args[0]) from error

    def _translate_error(self, error: KafkaError) -> Exception:
        if error.fatal() and error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            # fatal for this producer; the next term creates another one
            return NotAuthorized(
                f"not authorized to use transactional id {self._names.leader}: {error.str()}",
                hint="Grant Describe and Write on it; livejoin retries.",
            )
        if error.fatal() and error.code() in _FENCED:
            return LeadershipLost(
                f"{self._names.ledger} is fenced for this process: {error.str()}",
                hint="Another livejoin of this name leads. Start this one again to stand by.",
            )
        if error.fatal():  # also after a topic of the transaction was deleted
            self._topics.check_unchanged()
            return LedgerUnwritable(
                f"{self._names.ledger} can no longer be written: {error.str()}",
                hint="livejoin retries with a new producer.",
            )
        if error.txn_requires_abort():
            self._pending = "abort"
        return KafkaUnavailable(f"{self._names.ledger} was not written: {error.str()}")


def _generation_key(number: int) -> bytes:
    return GENERATION_KEY + str(number).encode()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _log_to_console(line: LogLine) -> None:
    about = {"generation": line.generation, "control": line.control}
    fields = {name: value for name, value in about.items() if value is not None}
    write = {"INFO": log.info, "WARN": log.warning, "ERROR": log.error}[line.level]
    write(line.msg, **fields)
