"""Who leads: whoever holds the only partition of the leader topic in a consumer group.

A member that joins later does not take it over. One that dies loses it after the session's time.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from livejoin.control import leader_heartbeat
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable, TopicUnusable
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

SESSION_S = 10
_POLL_S = 0.2
_PROBE_S = 2.0
_ELECTION_S = 5.0  # by default a broker waits 3 s for more members of a new group

# Names with an underscore are librdkafka's own errors, not private.
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001


@dataclass
class Term:
    """One time of leading: when it is over, and what is done at once where the lead is lost."""

    over: threading.Event = field(default_factory=threading.Event)
    on_loss: Callable[[], None] = lambda: None


LeadFunction = Callable[[Term], None]


def check_leader_topic(kafka: Kafka, names: Names) -> None:
    """Refuse a leader topic by which two could lead."""
    found = kafka.describe([names.leader]).get(names.leader)
    if found is not None and len(found.partitions) > 1:
        raise TopicUnusable(
            f"topic {names.leader} has {len(found.partitions)} partitions,"
            " and whoever holds one would lead",
            hint="It must have one: stop all livejoins of this name and delete it;"
            " the next start makes it again.",
        )


class Leadership:
    """Stands for election. Leads on a thread of its own while it holds the partition."""

    def __init__(self, kafka: Kafka, names: Names, lead: LeadFunction) -> None:
        self._kafka = kafka
        self._names = names
        self._lead = lead
        self._term = Term()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Stand by, and lead whenever it is our turn, until told to stop."""
        self._kafka.create_topic(self._names.leader, leader_heartbeat.TOPIC_CONFIG)
        check_leader_topic(self._kafka, self._names)
        consumer = self._kafka.group_consumer(self._names.group("leader"), SESSION_S)
        consumer.subscribe(
            [self._names.leader],
            on_assign=self._on_assigned,
            on_revoke=self._on_lost,
            on_lost=self._on_lost,
        )
        log.info("standing for election", name=self._names.prefix)
        waited_s, said = 0.0, False
        try:
            while not stop.is_set() and self._failure is None:
                self._poll(consumer)
                waited_s = waited_s + _POLL_S if self._thread is None else 0.0
                said = said and self._thread is None
                if waited_s >= _ELECTION_S and not said:
                    # without a broker nobody is elected, and the tables say so
                    said, waited_s = self._kafka.reachable(_PROBE_S), 0.0
                    if said:
                        log.info("another livejoin leads; standing by", name=self._names.prefix)
        finally:
            self._end_term()
            consumer.close()  # leaves the group: the next one leads at once
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
            self._term.on_loss()  # before anybody else may lead: our queries must not write on
            log.warning("no longer leading", name=self._names.prefix)
            self._end_term()

    def _run_lead(self) -> None:
        try:
            self._lead(self._term)
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
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
        said = message.error() if message else None
        if said is not None and said.code() in _NO_TOPIC:
            raise TopicUnusable(
                f"{self._names.leader} was deleted",
                hint="It is made again, and a leader is elected by it.",
            )
        if said is not None and said.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaUnavailable(
                f"group {self._names.group('leader')} may not be used",
                hint="Ask for the right to read it.",
            )


def _has_first(partitions: Sequence[TopicPartition]) -> bool:
    """Whether the first partition is among them. Others may be added by anybody at any time."""
    return any(one.partition == 0 for one in partitions)
