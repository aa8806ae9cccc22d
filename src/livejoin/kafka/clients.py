"""Clients of a Kafka cluster, all created from one block of properties, and their errors."""

import math
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from livejoin.core.own_topics import MAX_RECORD_BYTES, OwnTopicRules
from livejoin.errors import KafkaUnavailable, SettingsError
from livejoin.kafka import advertised, bootstrap_servers, properties
from livejoin.kafka.bootstrap_servers import Server
from livejoin.kafka.topic_errors import from_kafka_error

# Below the smallest size of a topic: librdkafka does not split a batch that a topic refuses.
_BATCH_BYTES = 48 << 10

Client = TypeVar("Client")

# Names with an underscore are librdkafka's own errors, not private.
_AUTH_ERRORS = (KafkaError._AUTHENTICATION, KafkaError._SSL)  # noqa: SLF001
# librdkafka reports these as transport errors: a TLS alert, and TLS on one side only.
_TLS_ERROR_SIGNS = ("SSL alert", "SSL_HANDSHAKE", "listener?")
_TIMEOUT_ERRORS = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001
# librdkafka repeats the failure to get a token every 10 s, that to connect every 30 to 40 s
_LAST_ERROR_S = 45
_ATTEMPT_DETAILS = re.compile(
    r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)"
)
_ATTEMPT_S = 2.0  # of one attempt; also how long a stopping process waits
REQUEST_TIMEOUT_S = 15  # a healthy cluster answers in milliseconds, a starting one in seconds


class KafkaClients:
    """Creates clients. Callers close producers and consumers; the admin client is shared."""

    def __init__(
        self,
        block: properties.Values,
        own_topics: OwnTopicRules | None = None,
        *,
        section: str = properties.SECTION,
        role: str = "",
    ) -> None:
        self.properties = block
        self.own_topics = own_topics or OwnTopicRules()
        self.section = section  # of the settings, for hints
        self.role = role  # tells it from other clusters, in errors
        self._client_properties = properties.client_properties(properties.reveal(block), section)
        self._admin: AdminClient | None = None
        self._last_error: tuple[KafkaError, float] | None = None
        self._stopping = False

    def stop_waiting(self) -> None:
        """From now on give up after one attempt: the process is stopping."""
        self._stopping = True

    @property
    def address(self) -> str:
        """The bootstrap servers, as text."""
        return self._client_properties.librdkafka["bootstrap.servers"]

    @property
    def servers(self) -> list[Server]:
        """The bootstrap servers."""
        return bootstrap_servers.parse(self.address)

    @property
    def login(self) -> str:
        """How it logs in: the security protocol, with mechanism and user where there are any."""
        given = self._client_properties.librdkafka
        user = given.get("sasl.username") or given.get("sasl.oauthbearer.client.id")
        parts = (given.get("security.protocol"), given.get("sasl.mechanism"), user)
        return ", ".join(filter(None, parts))

    @property
    def trusted_ca(self) -> str | None:
        """The CAs that it trusts, as PEM; empty: the system's, None: it does not use TLS."""
        given = self._client_properties.librdkafka
        return given.get("ssl.ca.pem", "") if given["security.protocol"].endswith("SSL") else None

    @property
    def _place(self) -> str:
        """Its address, with its role where there are other clusters."""
        return f"{self.address} ({self.role})" if self.role else self.address

    def spark_options(self) -> dict[str, str]:
        """The properties as options of Spark's Kafka source and sink."""
        return {f"kafka.{name}": value for name, value in self._client_properties.java.items()}

    def spark_reader_options(self, group: str) -> dict[str, str]:
        """Options for every reader in Spark, whose consumer groups begin with this name."""
        return self.spark_options() | {
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.bytes": str(MAX_RECORD_BYTES),
            "kafka.max.poll.records": "5000",  # from a fetch of 1 MiB; the default is 500
            # reading must not recreate a deleted topic
            "kafka.allow.auto.create.topics": "false",
            "groupIdPrefix": group,
        }

    def spark_writer_options(self, batch_bytes: int) -> dict[str, str]:
        """Options for every writer in Spark; the topic is not among them.

        Java's producer splits a batch that a topic refuses into batches of the same size again.
        """
        return self.spark_options() | {
            "kafka.max.request.size": str(MAX_RECORD_BYTES),
            "kafka.acks": "all",
            # Without it most records are sent alone, which takes half of all CPU time while a
            # history is read. The mean latency rises by half of it.
            "kafka.linger.ms": "5",
            "kafka.batch.size": str(batch_bytes),
        }

    @property
    def token_url(self) -> str:
        """The endpoint that issues its tokens, if it logs in by OIDC."""
        return self._client_properties.token_url

    def producer(self, **more: str | float) -> Producer:
        """An idempotent producer with acks=all."""
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.size": _BATCH_BYTES,
        } | more
        return self._new_client(Producer, settings)

    def reader(
        self, group: str, *, fetch_wait_ms: int = 50, on_lost: Callable[[], object] = lambda: None
    ) -> Consumer:
        """A consumer for `assign`: it commits nothing, and reports the end of a partition.

        `on_lost` is called during a poll when all brokers are down.
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
        """A member of a consumer group that keeps its partitions when others join."""
        settings = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_s * 1000,
            "heartbeat.interval.ms": session_s * 200,
        }
        return self._new_client(Consumer, settings)

    @property
    def admin(self) -> AdminClient:
        """The shared admin client; kept, since its futures are lost when it is closed."""
        if self._admin is None:
            self._admin = self._new_client(AdminClient, {})
        return self._admin

    def _new_client(
        self, client: Callable[[dict[str, Any]], Client], more: dict[str, Any]
    ) -> Client:
        own = self._client_properties.librdkafka
        # without it librdkafka writes broker errors to standard error; livejoin reports them itself
        quiet = {} if "debug" in own else {"log_level": 2}
        try:
            return client({"error_cb": self._remember_error, **quiet, **own, **more})
        except KafkaException as error:
            raise SettingsError(f"{self.section}: {error.args[0].str()}") from error

    def _remember_error(self, error: KafkaError) -> None:
        """Keep the newest cause; "all brokers down" only follows from one."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._last_error = error, time.monotonic()

    def wait_until_reachable(self, limit_s: float) -> ClusterMetadata:
        """The cluster's metadata once it answers; KafkaUnavailable with its last error if not."""
        until, try_s = time.monotonic() + limit_s, _ATTEMPT_S
        while True:
            left = until - time.monotonic()
            try:
                return self.admin.list_topics(timeout=max(0.1, min(left, try_s)))
            except KafkaException as error:
                if self._stopping or left <= 0:
                    raise self._unavailable(error.args[0].str()) from error
            try_s *= 2  # a large cluster may need longer

    def reachable(self, limit_s: float = 0) -> bool:
        """Whether the cluster answers, now or within a time."""
        try:
            self.wait_until_reachable(limit_s)
        except KafkaUnavailable:
            return False
        return True

    def check_advertised(self) -> None:
        """Raise if a broker cannot be reached at the address that it advertises."""
        # a new client: one that has tried the advertised addresses asks no other any more
        try:
            metadata = self._new_client(AdminClient, {}).list_topics(timeout=_ATTEMPT_S)
        except KafkaException as error:
            raise self._unavailable(error.args[0].str()) from error
        brokers = [
            (broker.id, str(broker.host), broker.port) for broker in metadata.brokers.values()
        ]
        found = advertised.first_unreachable(brokers, self.address)
        if found is not None:
            raise self._lost_broker(found)

    def _lost_broker(self, found: advertised.LostBroker) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"Kafka at {self._place} answers, but broker {found.broker} advertises"
            f" {found.address}, which cannot be reached from here: {found.why}",
            hint="Check that it runs. Make that address reachable from here, or correct"
            " advertised.listeners of the broker; livejoin retries.",
        )

    def _no_answer(self, why: str) -> KafkaUnavailable:
        """The error of a request that no broker answered, though the cluster may be there."""
        if not self._stopping:
            try:
                self.check_advertised()
            except KafkaUnavailable as error:
                return error
        return self._unavailable(why)

    def _result(self, future: Any, topic: str, action: str = "read") -> Any:
        """Wait for the result of an admin request about a topic."""
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                return future.result(_ATTEMPT_S)
            except KafkaException as error:
                if error.args[0].code() in _TIMEOUT_ERRORS:
                    raise self._no_answer(error.args[0].str()) from error
                raise from_kafka_error(error, topic, action) from error
            except TimeoutError as error:
                if self._stopping or time.monotonic() > until:
                    raise self._no_answer("no answer") from error

    def _unavailable(self, why: str) -> KafkaUnavailable:
        self.admin.poll(0)  # runs the error callback
        last_error, at = self._last_error or (None, -math.inf)
        if time.monotonic() - at > _LAST_ERROR_S:
            last_error = None
        text = last_error.str() if last_error else why
        # without what differs from attempt to attempt: each other text is another line of the log
        cause = _ATTEMPT_DETAILS.sub("", text)
        if last_error and (
            last_error.code() in _AUTH_ERRORS or any(sign in text for sign in _TLS_ERROR_SIGNS)
        ):
            return KafkaUnavailable(
                f"TLS handshake or login with Kafka at {self._place} failed: {cause}",
                hint=f"Check security.protocol, sasl.* and ssl.* in the {self.section} settings;"
                " livejoin retries.",
            )
        if found := advertised.from_error(cause, self.address):
            return self._lost_broker(found)
        return KafkaUnavailable(
            f"Kafka at {self._place} cannot be reached: {cause}",
            hint=f"Check bootstrap.servers and security.protocol in the {self.section} settings,"
            " and that the broker runs; livejoin retries.",
        )
