"""Clients of the users' Kafka, from one block of properties, and what is asked of its topics."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from livejoin.core.suggest import nearest
from livejoin.errors import KafkaUnavailable, SettingsError, TopicUnusable
from livejoin.kafka import properties
from livejoin.kafka.errors import (
    LeaderNotAvailable,
    TopicExists,
    TopicUnknown,
    from_kafka_error,
    topic_not_authorized,
    topic_not_found,
)

Client = TypeVar("Client")

# Names with an underscore are librdkafka's own errors, not private.
_AUTH_ERRORS = (KafkaError._AUTHENTICATION, KafkaError._SSL)  # noqa: SLF001
# It also calls these a failure of transport: an alert, and TLS that is spoken on one side only.
_TLS_ERROR_SIGNS = ("SSL alert", "SSL_HANDSHAKE", "listener?")
_TIMEOUT_ERRORS = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001
_LAST_ERROR_S = 30  # why no token can be had is told every 10 s
_ATTEMPT_S = 2.0  # one of several questions; and the last one of somebody who leaves
REQUEST_TIMEOUT_S = (
    15  # a healthy cluster answers metadata in milliseconds, a starting one in seconds
)
MAX_RECORD_BYTES = 16 << 20  # a 1 MiB user beside a 1 MiB account, escaped, fits


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it. The id tells a topic that was deleted and made again."""

    name: str
    id: str
    partitions: tuple[int, ...]
    readable: bool = True
    writable: bool = True


class Kafka:
    """The users' cluster. Whoever takes a producer or reader closes it; the admin client stays."""

    def __init__(self, block: properties.Values) -> None:
        self.properties = block
        self._client_properties = properties.client_properties(properties.reveal(block))
        self._admin: AdminClient | None = None
        self._last_error: tuple[KafkaError, float] | None = None
        self._stopping = False

    def stop_waiting(self) -> None:
        """We are stopping: from now on nobody waits long for an answer."""
        self._stopping = True

    @property
    def address(self) -> str:
        """The bootstrap servers, for people."""
        return self._client_properties.librdkafka["bootstrap.servers"]

    def spark_options(self) -> dict[str, str]:
        """The same properties as options of Spark's Kafka source and sink."""
        return {f"kafka.{name}": value for name, value in self._client_properties.java.items()}

    @property
    def java_options(self) -> tuple[str, ...]:
        """What a JVM must be told in which clients of Spark's run."""
        return self._client_properties.java_options

    def producer(self, **more: str | float) -> Producer:
        """A producer that loses nothing."""
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 0} | more
        return self._new_client(Producer, settings)

    def reader(
        self, group: str, *, fetch_wait_ms: int = 50, on_lost: Callable[[], object] = lambda: None
    ) -> Consumer:
        """A consumer for `assign`: it commits nothing, and reports the end of a partition.

        `on_lost` is called, while polling, when no broker answers any more.
        """

        def failed(error: KafkaError) -> None:
            self._remember_error(error)
            if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
                on_lost()

        settings = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": fetch_wait_ms,
            "fetch.message.max.bytes": MAX_RECORD_BYTES,
            "reconnect.backoff.max.ms": 1000,
            "error_cb": failed,
        }
        return self._new_client(Consumer, settings)

    def group_consumer(self, group: str, session_s: int) -> Consumer:
        """A member of a consumer group that keeps what it holds when others join."""
        settings = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_s * 1000,
            "heartbeat.interval.ms": session_s * 200,
        }
        return self._new_client(Consumer, settings)

    def _new_client(
        self, client: Callable[[dict[str, Any]], Client], more: dict[str, Any]
    ) -> Client:
        # librdkafka writes broker trouble to standard error; status and logs say it better
        own = self._client_properties.librdkafka
        quiet = {} if "debug" in own else {"log_level": 2}
        try:
            return client({"error_cb": self._remember_error, **quiet, **own, **more})
        except KafkaException as error:
            raise SettingsError(f"kafka: {error.args[0].str()}") from error

    def _remember_error(self, error: KafkaError) -> None:
        """Remember what brokers, or their absence, gave as reason: other errors only say "down"."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._last_error = error, time.monotonic()

    @property
    def admin(self) -> AdminClient:
        """The admin client; one for all, since its answers die with it."""
        if self._admin is None:
            self._admin = self._new_client(AdminClient, {})
        return self._admin

    def _result(self, future: Any, topic: str, doing: str = "read") -> Any:
        """What the cluster answers about a topic, or an error of ours."""
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                return future.result(_ATTEMPT_S)
            except KafkaException as error:
                if error.args[0].code() in _TIMEOUT_ERRORS:
                    raise self._unavailable(error.args[0].str()) from error
                raise from_kafka_error(error, topic, doing) from error
            except TimeoutError as error:
                if self._stopping or time.monotonic() > until:
                    raise self._unavailable("no answer") from error

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe those of the topics that exist."""
        asked = sorted(set(names))
        futures = self.admin.describe_topics(
            TopicCollection(asked),
            include_authorized_operations=True,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        found = {}
        for name, future in futures.items():
            try:
                it = self._result(future, name)
            except TopicUnknown:
                continue
            found[name] = Topic(
                name,
                str(it.topic_id),
                tuple(sorted(p.id for p in it.partitions)),
                AclOperation.READ in it.authorized_operations,
                AclOperation.WRITE in it.authorized_operations,
            )
        return found

    def describe_readable(self, names: Iterable[str]) -> dict[str, Topic | str]:
        """Describe topics that are to be read, or say why one cannot be."""
        asked = list(names)
        found = self._describe_each(asked)
        unknown = [name for name in asked if name not in found]
        known = self.topics() if unknown else []
        return found | {name: _unknown_topic(name, known) for name in unknown}

    def _describe_each(self, names: Iterable[str]) -> dict[str, Topic | str]:
        found: dict[str, Topic | str] = {}
        for name in names:  # one by one: each may be forbidden by itself
            try:
                for topic in self.describe([name]).values():
                    found[name] = topic if topic.readable else topic_not_authorized(name).message
            except TopicUnusable as error:
                found[name] = error.message
        return found

    def topics(self) -> list[str]:
        """The names of all topics that may be seen."""
        return sorted(self.wait_until_reachable(REQUEST_TIMEOUT_S).topics)

    def wait_until_reachable(self, limit_s: float) -> ClusterMetadata:
        """What the cluster consists of, once it answers; or raise what it last said."""
        until, try_s = time.monotonic() + limit_s, _ATTEMPT_S
        while True:
            left = until - time.monotonic()
            try:
                return self.admin.list_topics(timeout=max(0.1, min(left, try_s)))
            except KafkaException as error:
                if self._stopping or left <= 0:
                    raise self._unavailable(error.args[0].str()) from error
            try_s *= 2  # a large cluster takes its time

    def reachable(self, limit_s: float = 0) -> bool:
        """Whether the cluster answers, now or within a time."""
        try:
            self.wait_until_reachable(limit_s)
        except KafkaUnavailable:
            return False
        return True

    def delete(self, names: Iterable[str]) -> None:
        """Have these topics gone."""
        futures = self.admin.delete_topics(list(names), request_timeout=REQUEST_TIMEOUT_S)
        for name, future in futures.items():
            with contextlib.suppress(TopicUnknown):
                self._result(future, name, "deleted")

    def create_topic(
        self, name: str, config: Mapping[str, str] | None = None, partitions: int = 1
    ) -> None:
        """Make a topic unless it is there; afterwards it can be described and read."""
        topic = NewTopic(name, partitions, replication_factor=-1, config=dict(config or {}))
        with contextlib.suppress(TopicExists):
            asked = self.admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[name]
            self._result(asked, name, "made")
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while name not in self.describe([name]):  # brokers learn of it one after the other
            if time.monotonic() > until:
                raise topic_not_found(name)
            time.sleep(0.02)

    def recreate_topic(self, name: str, config: Mapping[str, str] | None = None) -> Topic:
        """Make a topic that nobody had before; one that has its name is deleted first."""
        topic = NewTopic(name, 1, replication_factor=-1, config=dict(config or {}))
        until, old = time.monotonic() + REQUEST_TIMEOUT_S, set[str]()
        while True:  # a broker may make it again between deleting and making
            old |= {found.id for found in self.describe([name]).values()}
            try:
                asked = self.admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[name]
                self._result(asked, name, "made")
                break
            except TopicExists:
                if time.monotonic() > until:
                    raise
                self.delete([name])
        while True:  # brokers learn of it one after the other
            made = self.describe([name]).get(name)
            if made is not None and made.id not in old:
                return made
            if time.monotonic() > until:
                raise topic_not_found(name)
            time.sleep(0.02)

    def topic_config(self, topic: str, name: str) -> str | None:
        """A setting of a topic; None where it is not ours to know."""
        asked = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self.admin.describe_configs([asked], request_timeout=REQUEST_TIMEOUT_S).values()
        try:
            return str(self._result(future, topic)[name].value)
        except TopicUnusable:
            return None

    def ensure_topic_config(self, topic: str, name: str, value: str) -> bool:
        """Have a setting of a topic; whether that is so, as far as we are told."""
        if self.topic_config(topic, name) in (None, value):
            return True
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        changed = self.admin.incremental_alter_configs([asked], request_timeout=REQUEST_TIMEOUT_S)
        try:
            (future,) = changed.values()
            self._result(future, topic, "altered")
        except TopicUnusable:
            return False
        return True

    def end_offset(self, topic: str) -> int:
        """Where a topic of one partition ends."""
        own = Topic(topic, "", partitions=(0,))
        return self.offsets([own], OffsetSpec.latest())[topic][0]

    def offsets(self, topics: Iterable[Topic], spec: OffsetSpec) -> dict[str, dict[int, int]]:
        """By topic one offset per partition. Ends are those of readers of what was committed."""
        asked = {TopicPartition(topic.name, p): spec for topic in topics for p in topic.partitions}
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            futures = self.admin.list_offsets(
                asked,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=REQUEST_TIMEOUT_S,
            )
            found: dict[str, dict[int, int]] = {}
            try:
                for at, future in futures.items():
                    offset = self._result(future, at.topic).offset
                    found.setdefault(at.topic, {})[at.partition] = offset
            except LeaderNotAvailable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return found

    def _unavailable(self, why: str) -> KafkaUnavailable:
        self.admin.poll(0)  # has its errors told
        trouble, at = self._last_error or (None, -math.inf)
        if time.monotonic() - at > _LAST_ERROR_S:
            trouble = None
        said = trouble.str() if trouble else why
        if trouble and (
            trouble.code() in _AUTH_ERRORS or any(sign in said for sign in _TLS_ERROR_SIGNS)
        ):
            return KafkaUnavailable(
                f"Kafka at {self.address} refuses us, or is not who it should be: {said}",
                hint="Check security.protocol, sasl.* and ssl.* of kafka; it is tried again.",
            )
        return KafkaUnavailable(
            f"Kafka at {self.address} cannot be reached: {said}",
            hint="Check bootstrap.servers and security.protocol of kafka, and that the broker"
            " runs; it is tried again.",
        )


def _unknown_topic(topic: str, known: Iterable[str]) -> str:
    close = nearest(topic, known)
    return f'topic "{topic}" does not exist' + (f", did you mean {close}?" if close else "")
