"""Leader election, and the heartbeats of the leader: both use the leader topic.

The consumer that is assigned its only partition leads. Members that join later do not take over. A
member that dies loses the partition after the session timeout.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from livejoin.core.names import Names
from livejoin.core.state import HEARTBEAT_S, LEADER_KEY
from livejoin.errors import KafkaUnavailable, TopicMisconfigured, TopicMissing
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.topic_errors import group_not_authorized

log = structlog.get_logger()

# Only the newest heartbeat matters.
SESSION_S = 10  # session timeout of the consumer group
# Spark's JVM is killed when the leader has been silent for so long. The last heartbeat of the group
# may be 2 s older than the last sign of life to the JVM's guard: 3 s less than the session, and the
# JVM is gone before another leader is elected.
JVM_SILENCE_S = SESSION_S - 3
_POLL_S = 0.2
_PROBE_S = 2.0
_ELECTION_S = 5.0  # by default brokers wait 3 s for more members of a new group

# Names with an underscore are errors of librdkafka itself, not private.
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001


@dataclass
class Term:
    """One term as leader: its end, and a callback for when leadership is lost."""

    over: threading.Event = field(default_factory=threading.Event)
    on_loss: Callable[[], None] = lambda: None


LeadFunction = Callable[[Term], None]


def check_leader_topic(kafka: Kafka, names: Names) -> None:
    """Raise if the leader topic has several partitions, so that several processes could lead."""
    found = kafka.describe([names.leader]).get(names.leader)
    if found is not None and len(found.partitions) > 1:
        raise TopicMisconfigured(
            f"topic {names.leader} has {len(found.partitions)} partitions,"
            " so several processes could lead",
            hint="It must have one: stop all livejoins of this name and delete it;"
            " the next start recreates it.",
        )


class Leadership:
    """Takes part in the election; leads on its own thread while it holds the partition."""

    def __init__(self, kafka: Kafka, names: Names, lead: LeadFunction) -> None:
        self._kafka = kafka
        self._names = names
        self._lead = lead
        self._term = Term()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Stand by, and lead whenever elected, until stopped."""
        own_topics.create(self._kafka, self._names.leader, "leader")
        check_leader_topic(self._kafka, self._names)
        consumer = self._kafka.group_consumer(self._names.group("leader"), SESSION_S)
        consumer.subscribe(
            [self._names.leader],
            on_assign=self._on_assigned,
            on_revoke=self._on_lost,
            on_lost=self._on_lost,
        )
        log.info("standing for election", name=self._names.prefix)
        waited_s, logged = 0.0, False
        try:
            while not stop.is_set() and self._failure is None:
                self._poll(consumer)
                waited_s = waited_s + _POLL_S if self._thread is None else 0.0
                logged = logged and self._thread is None
                if waited_s >= _ELECTION_S and not logged:
                    # if Kafka is unreachable there is no leader either
                    logged, waited_s = self._kafka.reachable(_PROBE_S), 0.0
                    if logged:
                        log.info("another livejoin leads; standing by", name=self._names.prefix)
        finally:
            self._end_term()
            consumer.close()  # leaves the group, so the next member leads at once
        if self._failure is not None:
            raise self._failure

    def _on_assigned(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if _has_first(partitions) and self._thread is None:
            log.info("leading", name=self._names.prefix)
            self._term = Term()
            self._thread = threading.Thread(target=self._run_lead, name="control")
            self._thread.start()

    def _on_lost(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if _has_first(partitions) and self._thread is not None:
            self._term.over.set()
            self._term.on_loss()  # before another process leads: our queries must stop writing
            log.warning("no longer leading", name=self._names.prefix)
            self._end_term()

    def _run_lead(self) -> None:
        try:
            self._lead(self._term)
        except BaseException as error:  # noqa: BLE001 - re-raised by `run`
            self._failure = error

    def _end_term(self) -> None:
        self._term.over.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def _poll(self, consumer: Consumer) -> None:
        try:
            message = consumer.poll(_POLL_S)
        except KafkaException as error:
            raise KafkaUnavailable(f"{self._names.leader}: {error.args[0].str()}") from error
        problem = message.error() if message else None
        if problem is not None and problem.code() in _NO_TOPIC:
            raise TopicMissing(
                f"{self._names.leader} was deleted",
                hint="It is recreated, followed by a new election.",
            )
        if problem is not None and problem.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise group_not_authorized(self._names.group("leader"))


class LeaderHeartbeat:
    """Sends heartbeats for table servers in other processes.

    It does not wait: a lost heartbeat is followed by the next. They are not part of the ledger's
    transactions: one would then nearly always be open when a broker fails.
    """

    def __init__(
        self, kafka: Kafka, names: Names, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._clock = clock
        self._producer: Producer | None = None
        self._sent_at = -HEARTBEAT_S

    def send_if_due(self) -> None:
        """Send a heartbeat if HEARTBEAT_S have passed."""
        now = self._clock()
        if now < self._sent_at + HEARTBEAT_S:
            return
        self._sent_at = now
        beat = json.dumps({"at": int(time.time() * 1000)})
        try:
            producer = self._get_producer()
            producer.produce(self._names.leader, beat.encode(), LEADER_KEY)
            producer.poll(0)
        except (KafkaException, BufferError) as error:
            log.warning("cannot send the leader heartbeat, retrying", why=str(error))

    def _get_producer(self) -> Producer:
        if self._producer is None:
            # a late heartbeat is worthless, a duplicate harmless
            timeout_ms = int(HEARTBEAT_S * 1000)
            options = {"message.timeout.ms": timeout_ms, "enable.idempotence": False}
            self._producer = self._kafka.producer(**options)
        return self._producer


def _has_first(partitions: Sequence[TopicPartition]) -> bool:
    """Whether partition 0 is among them. More partitions may be added at any time."""
    return any(assigned.partition == 0 for assigned in partitions)
