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
from livejoin.core.outbox import Ended, Line, Reply, Told, row_id
from livejoin.core.state import (
    GENERATION_KEY,
    STATE_KEY,
    STATUS_KEY,
    State,
    from_json,
    refusal,
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
_LEAD_S = 10  # to fence whoever wrote before
_WRITE_S = 4  # a commit in doubt goes on at the next try; meanwhile we can be told to stop
_LOOK_S = 5.0


class _Out(NamedTuple):
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
        self._beat = leader_heartbeat.Beat(kafka, names, clock)
        self._producer: Producer | None = None
        self._topics = OwnTopics(kafka, names)
        self._written: dict[bytes, bytes | None] = {}
        self._open: Literal["", "commit", "abort"] = ""  # what a transaction in doubt waits for

    def last(self) -> State:
        """Fence older leaders, then read the state as it was last written."""
        names = self._names
        self.check()
        self._topics.make()
        self._producer = self._kafka.producer(**{"transactional.id": names.leader})
        try:
            self._producer.init_transactions(_LEAD_S)
        except KafkaException as error:
            raise KafkaUnavailable(f"{names.ledger} cannot be written: {error}") from error
        failpoints.visit("after-lead")
        state = self._state()  # again: whoever led until now may be a newer one
        self._have_compacted(empty=state is None)
        self._topics.have_single()
        self._topics.remember()
        return state or State()

    def check(self) -> None:
        """Refuse what nobody can lead by before anything is written or anybody fenced."""
        if self._names.ledger in self._kafka.describe([self._names.ledger]):
            self._state()  # a newer livejoin may have written it
        self._topics.check()

    def _state(self) -> State | None:
        """The state, if there is one; refused by name where a newer livejoin wrote it."""
        found = self._read().get(STATE_KEY)
        if found is None:
            return None
        data = json.loads(found)
        if why := refusal(data):
            raise NewerFormat(f"{self._names.ledger}: {why}")
        return from_json(data)

    def _have_compacted(self, *, empty: bool) -> None:
        """Have the ledger as we make it: a broker may have made it, to lose its records by age."""
        ledger, (name, value) = self._names.ledger, COMPACTED
        several = len(self._kafka.describe([ledger])[ledger].partitions) > 1
        if empty and (several or self._kafka.setting(ledger, name) not in (None, value)):
            self._kafka.make_new(ledger, dict([COMPACTED]))
        elif several:
            raise TopicUnusable(
                f"{ledger} has more than one partition",
                hint="Delete it while nothing runs: it is made again, and what is live built anew.",
            )
        elif not self._kafka.have_setting(ledger, name, value):
            log.warning("the ledger is not compacted, and may lose its state by age", topic=ledger)

    def watch(self, stop: threading.Event) -> None:
        """Raise when a topic that we write is gone or another one, until told to stop."""
        while not stop.wait(_LOOK_S):
            with contextlib.suppress(KafkaUnavailable):  # the tables say so, and writing waits
                self._topics.check_same()

    def _read(self) -> dict[bytes, bytes]:
        consumer = self._kafka.reader(self._names.group("ledger"))
        try:
            consumer.assign([TopicPartition(self._names.ledger, 0, 0)])
            return {r.key: r.value for r in read_to_end(consumer, self._names.ledger)}
        finally:
            consumer.close()

    def write(self, state: State) -> State:
        """Write down what changed, all of it or nothing; the state with nothing left to tell."""
        out = list(self._records(state))
        if out:
            failpoints.visit("before-ledger")
            self._commit(out)
            failpoints.visit("after-ledger")
            ledger = self._names.ledger
            self._written.update((one.key, one.value) for one in out if one.topic == ledger)
        self._beat.say()  # whoever could write, or had nothing to, leads
        for told in state.untold:
            if isinstance(told, Line):
                _to_console(told)
        return replace(state, untold=()) if state.untold else state

    def _records(self, state: State) -> Iterator[_Out]:
        ledger = self._names.ledger
        rows = status_rows.generation_rows(state)
        status = {**status_rows.status(state), "stale": status_rows.stale(state)}
        current = {STATE_KEY: to_json(state), STATUS_KEY: status}
        current |= {_generation_key(number): row for number, row in rows.items()}
        for told in state.untold:
            yield from self._told(told)
        for key, value in current.items():
            data = _json(value)
            if self._written.get(key) != data:
                yield _Out(ledger, key, data)
        old = _generation_key(state.last_number - spec.GENERATIONS_KEPT)
        if state.last_number > spec.GENERATIONS_KEPT and old not in self._written:
            yield _Out(ledger, old, None)

    def _told(self, told: Told) -> Iterator[_Out]:
        names = self._names
        match told:
            case Line():
                line = {"ts": int(told.at * 1000), "level": told.level, "msg": told.msg}
                yield _Out(names.logs, f"{spec.LOGS}/{row_id(told.id)}".encode(), _json(line))
            case Reply():
                place = f"0-{told.origin.offset}"
                key = f"{spec.CONTROL}/{row_id(told.origin.offset)}".encode()
                yield _Out(names.logs, key, _json(told.row()))
                reply_key = (told.origin.id or place).encode()
                yield _Out(names.replies, reply_key, _json(told.record()))
            case Ended(generation):
                yield _Out(
                    names.ledger,
                    _generation_key(generation.number),
                    _json(status_rows.ended_row(told)),
                )
            case _:
                assert_never(told)

    def _commit(self, out: list[_Out]) -> None:
        producer = self._producer
        assert producer is not None, "last() comes first"
        try:
            if self._open == "abort":
                producer.abort_transaction(_WRITE_S)
            if self._open != "commit":  # one that is being committed holds these very records
                self._open = "abort"
                producer.begin_transaction()
                for one in out:
                    producer.produce(one.topic, one.value, one.key)
                failpoints.visit("in-ledger")
                self._open = "commit"
            producer.commit_transaction(_WRITE_S)
            self._open = ""
        except KafkaException as error:
            raise self._named(error.args[0]) from error

    def _named(self, error: KafkaError) -> Exception:
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
            self._topics.check_same()
            return TopicUnusable(
                f"{self._names.ledger} cannot be written any more: {error.str()}",
                hint="It is tried again, with another producer.",
            )
        if error.txn_requires_abort():
            self._open = "abort"
        return KafkaUnavailable(f"{self._names.ledger} was not written: {error.str()}")


def _generation_key(number: int) -> bytes:
    return GENERATION_KEY + str(number).encode()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _to_console(line: Line) -> None:
    {"INFO": log.info, "WARN": log.warning, "ERROR": log.error}[line.level](line.msg)
