"""The ledger: what the control plane knows, shows and says, written in one transaction.

So a crash neither loses nor doubles a line, and a leader that was deposed cannot write.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple, assert_never

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from livejoin.control import leader_heartbeat
from livejoin.control.own_topics import COMPACTED, OwnTopics
from livejoin.core import spec, status_rows
from livejoin.core.names import Names
from livejoin.core.outbox import EndedGeneration, LogLine, OutboxItem, Reply, row_id
from livejoin.core.state import (
    GENERATION_KEY,
    STATE_KEY,
    STATUS_KEY,
    State,
    format_error,
    from_json,
    to_json,
)
from livejoin.errors import KafkaUnavailable, LeadershipLost, NewerFormat, TopicUnusable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.reading import read_to_end
from livejoin.runtime import failpoints

log = structlog.get_logger()

# Names with an underscore are librdkafka's own errors, not private.
_FENCED = (
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
_FENCE_S = 10  # to fence whoever wrote before
_WRITE_S = 4  # a commit in doubt goes on at the next try; meanwhile we can be told to stop
_CHECK_S = 5.0


class _PendingRecord(NamedTuple):
    """A record to be written; without a value it removes its key."""

    topic: str
    key: bytes
    value: bytes | None


class Ledger:
    """Reads the last state; writes states with what they show and say, each only where new."""

    def __init__(
        self, kafka: Kafka, names: Names, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._heartbeat = leader_heartbeat.LeaderHeartbeat(kafka, names, clock)
        self._producer: Producer | None = None
        self._topics = OwnTopics(kafka, names)
        self._written: dict[bytes, bytes | None] = {}
        self._pending: Literal["", "commit", "abort"] = ""  # what a transaction in doubt waits for

    def take_over(self) -> State:
        """Fence older leaders, then read the state as it was last written."""
        names = self._names
        self.check()
        self._topics.create_missing()
        self._producer = self._kafka.producer(**{"transactional.id": names.leader})
        try:
            self._producer.init_transactions(_FENCE_S)
        except KafkaException as error:
            raise KafkaUnavailable(f"{names.ledger} cannot be written: {error}") from error
        failpoints.visit("after-lead")
        state = self._read_state()  # again: whoever led until now may be a newer one
        self._ensure_compacted(empty=state is None)
        self._topics.ensure_single_partition()
        self._topics.record_ids()
        return state or State()

    def check(self) -> None:
        """Refuse what nobody can lead by before anything is written or anybody fenced."""
        if self._names.ledger in self._kafka.describe([self._names.ledger]):
            self._read_state()  # a newer livejoin may have written it
        self._topics.check()

    def _read_state(self) -> State | None:
        """The state, if there is one; refused by name where a newer livejoin wrote it."""
        found = self._read().get(STATE_KEY)
        if found is None:
            return None
        data = json.loads(found)
        if why := format_error(data):
            raise NewerFormat(f"{self._names.ledger}: {why}")
        return from_json(data)

    def _ensure_compacted(self, *, empty: bool) -> None:
        """Have the ledger as we make it: a broker may have made it, to lose its records by age."""
        ledger, (name, value) = self._names.ledger, COMPACTED
        several = len(self._kafka.describe([ledger])[ledger].partitions) > 1
        if empty and (several or self._kafka.topic_config(ledger, name) not in (None, value)):
            self._kafka.recreate_topic(ledger, dict([COMPACTED]))
        elif several:
            raise TopicUnusable(
                f"{ledger} has more than one partition",
                hint="Delete it while nothing runs: it is made again, and what is live built anew.",
            )
        elif not self._kafka.ensure_topic_config(ledger, name, value):
            log.warning("the ledger is not compacted, and may lose its state by age", topic=ledger)

    def watch(self, stop: threading.Event) -> None:
        """Raise when a topic that we write is gone or another one, until told to stop."""
        while not stop.wait(_CHECK_S):
            with contextlib.suppress(KafkaUnavailable):  # the tables say so, and writing waits
                self._topics.check_unchanged()

    def _read(self) -> dict[bytes, bytes]:
        consumer = self._kafka.reader(self._names.group("ledger"))
        try:
            consumer.assign([TopicPartition(self._names.ledger, 0, 0)])
            return {r.key: r.value for r in read_to_end(consumer, self._names.ledger)}
        finally:
            consumer.close()

    def write(self, state: State) -> State:
        """Write down what changed, all of it or nothing; the state with nothing left to tell."""
        out = list(self._changed_records(state))
        if out:
            failpoints.visit("before-ledger")
            self._commit(out)
            failpoints.visit("after-ledger")
            ledger = self._names.ledger
            self._written.update((one.key, one.value) for one in out if one.topic == ledger)
        self._heartbeat.send_if_due()  # whoever could write, or had nothing to, leads
        for told in state.outbox:
            if isinstance(told, LogLine):
                _log_to_console(told)
        return replace(state, outbox=()) if state.outbox else state

    def _changed_records(self, state: State) -> Iterator[_PendingRecord]:
        ledger = self._names.ledger
        rows = status_rows.generation_rows(state)
        status = {**status_rows.status_row(state), "stale": status_rows.stale_reason(state)}
        current = {STATE_KEY: to_json(state), STATUS_KEY: status}
        current |= {_generation_key(number): row for number, row in rows.items()}
        for told in state.outbox:
            yield from self._outbox_records(told)
        for key, value in current.items():
            data = _json(value)
            if self._written.get(key) != data:
                yield _PendingRecord(ledger, key, data)
        old = _generation_key(state.last_number - spec.GENERATIONS_KEPT)
        if state.last_number > spec.GENERATIONS_KEPT and old not in self._written:
            yield _PendingRecord(ledger, old, None)

    def _outbox_records(self, told: OutboxItem) -> Iterator[_PendingRecord]:
        names = self._names
        match told:
            case LogLine():
                line = {"ts": int(told.at * 1000), "level": told.level, "msg": told.msg}
                yield _PendingRecord(
                    names.logs, f"{spec.LOGS}/{row_id(told.id)}".encode(), _json(line)
                )
            case Reply():
                place = f"0-{told.origin.offset}"
                key = f"{spec.CONTROL}/{row_id(told.origin.offset)}".encode()
                yield _PendingRecord(names.logs, key, _json(told.control_raw_row()))
                reply_key = (told.origin.id or place).encode()
                yield _PendingRecord(names.replies, reply_key, _json(told.reply_record()))
            case EndedGeneration(generation):
                yield _PendingRecord(
                    names.ledger,
                    _generation_key(generation.number),
                    _json(status_rows.ended_row(told)),
                )
            case _:
                assert_never(told)

    def _commit(self, out: list[_PendingRecord]) -> None:
        producer = self._producer
        assert producer is not None, "last() comes first"
        try:
            if self._pending == "abort":
                producer.abort_transaction(_WRITE_S)
            if self._pending != "commit":  # one that is being committed holds these very records
                self._pending = "abort"
                producer.begin_transaction()
                for one in out:
                    producer.produce(one.topic, one.value, one.key)
                failpoints.visit("in-ledger")
                self._pending = "commit"
            producer.commit_transaction(_WRITE_S)
            self._pending = ""
        except KafkaException as error:
            raise self._translate_error(error.args[0]) from error

    def _translate_error(self, error: KafkaError) -> Exception:
        if error.fatal() and error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            # this producer is done for; whoever stands for election again has another one
            return TopicUnusable(
                f"the transactional id {self._names.leader} may not be used: {error.str()}",
                hint="Ask for the right to describe it and to write with it; it is tried again.",
            )
        if error.fatal() and error.code() in _FENCED:
            return LeadershipLost(
                f"{self._names.ledger} may not be written any more: {error.str()}",
                hint="Another livejoin of this name leads. Start this one again to stand by.",
            )
        if error.fatal():  # as above: a transaction over a topic that was deleted ends so
            self._topics.check_unchanged()
            return TopicUnusable(
                f"{self._names.ledger} cannot be written any more: {error.str()}",
                hint="It is tried again, with another producer.",
            )
        if error.txn_requires_abort():
            self._pending = "abort"
        return KafkaUnavailable(f"{self._names.ledger} was not written: {error.str()}")


def _generation_key(number: int) -> bytes:
    return GENERATION_KEY + str(number).encode()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _log_to_console(line: LogLine) -> None:
    {"INFO": log.info, "WARN": log.warning, "ERROR": log.error}[line.level](line.msg)
