"""Sections of the settings with their defaults: topics, HTTP, Spark."""

import contextlib
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from livejoin import redaction
from livejoin.core import own_topics
from livejoin.core.control_messages import is_topic_name
from livejoin.kafka import properties

_CLUSTER_SLOTS = 64  # default for a cluster, which does not tell its slots
_AUTHENTICATE = "spark.authenticate"
# slots and checkpoints are computed from these, so spark.conf must not set them too
_DEDICATED_SETTINGS = {
    "spark.master": "spark.master",
    "spark.sql.shuffle.partitions": "spark.shuffle_partitions",
}


def _check_topic_name(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError(
            f"{name!r} is not a topic name:"
            " 1 to 249 letters, digits, '.', '_' or '-', not starting with '__'"
        )
    return name


TopicName = Annotated[str, AfterValidator(_check_topic_name)]


def _check_standby_time(value: Any) -> Any:
    """Raise one error instead of one per type of the union."""
    with contextlib.suppress(TypeError, ValueError):
        if value == "forever" or float(value) >= 0:
            return value
    raise ValueError("expected seconds, 0 or more, or forever")


StandbyTime = Annotated[float | Literal["forever"], BeforeValidator(_check_standby_time)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSettings(_Section):
    """Topics that are read until a control message names others."""

    users: TopicName = "users"
    accounts: TopicName = "accounts"
    control: TopicName = "control"
    allowed: tuple[str, ...] = Field(
        default=(), description="topics that a message may name, with * as wildcard; empty: all"
    )


def _to_config_text(value: Any) -> Any:
    """A config value as Kafka writes it; YAML reads numbers, booleans and empty values."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


ConfigValue = Annotated[str, BeforeValidator(_to_config_text)]


class OwnTopicSettings(_Section):
    """How livejoin's own topics are created."""

    replication: int = Field(
        default=0, ge=0, le=32767, description="replication factor; 0: the brokers' default"
    )
    max_message_bytes: int = Field(
        default=own_topics.MAX_RECORD_BYTES,
        ge=own_topics.MIN_RECORD_BYTES,
        le=own_topics.MAX_RECORD_BYTES,
        description="largest record of changelogs and bootstrap topics",
    )
    config: dict[own_topics.Kind, dict[str, ConfigValue]] = Field(
        default={}, description="topic configs by kind of topic; empty: the brokers' default"
    )
    create: bool = Field(
        default=True, description="false: an administrator creates those that last"
    )

    @field_validator("config")
    @classmethod
    def _check_config(
        cls, config: dict[own_topics.Kind, dict[str, str]]
    ) -> dict[own_topics.Kind, dict[str, str]]:
        for kind, values in config.items():
            for name in values:
                if name in own_topics.NEEDED_CONFIGS:
                    raise ValueError(f"{kind}: livejoin depends on its own {name}")
                if name == own_topics.SIZE_CONFIG and kind in own_topics.SIZED_KINDS:
                    raise ValueError(
                        f"{kind}: {name} has its own setting: own_topics.max_message_bytes"
                    )
        return config

    @property
    def rules(self) -> own_topics.OwnTopicRules:
        """The settings as the code that creates topics takes them."""
        return own_topics.OwnTopicRules(
            self.replication or -1, self.max_message_bytes, self.config, self.create
        )


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://" + _HOST.pattern)


class TlsSettings(_Section):
    """Certificate and key of the HTTPS server; empty: plain HTTP."""

    certificate: str = Field(default="", description="PEM file, including the chain")
    key: str = Field(default="", description="PEM file; empty: the key is in the certificate file")


class HttpSettings(_Section):
    """Address, access and limits of the HTTP server."""

    host: str = "127.0.0.1"
    port: int = Field(default=10000, ge=0, le=65535, description="0 picks a free port")
    tls: TlsSettings = TlsSettings()
    insecure: bool = Field(
        default=False, description="no tokens; required to serve others without TLS"
    )
    hosts: tuple[str, ...] = Field(default=(), description="further host names of this server")
    origins: tuple[str, ...] = Field(default=(), description="other origins allowed by CORS")
    connections: int = Field(default=4096, ge=1)
    connections_per_address: int = Field(default=2048, ge=1)
    connections_per_second: float = Field(
        default=100, gt=0, description="new ones per client address"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> "HttpSettings":
        for name in self.hosts:
            if not _HOST.fullmatch(name):
                raise ValueError(
                    f"hosts: {name!r} is not a name like live.example.com or name:8443"
                )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"origins: {origin!r} is not an origin like https://app.example.com"
                )
        if self.tls.key and not self.tls.certificate:
            raise ValueError("tls.key needs tls.certificate")
        return self


class SparkSettings(_Section):
    """Where and how the pipeline runs."""

    # One thread per slot, and a query occupies one per partition, one per shuffle partition and one
    # for its bootstrap topic: 512 slots fit three generations
    # that read two topics of 64 partitions.
    master: str = "local[512]"
    conf: properties.Values = {}
    # Ending a batch pauses output for about a second. p99 stays below 150 ms only if pauses take
    # less than 1 % of the time. A crash replays the batch: 45 s for 300 s at 500 messages/s.
    batch_s: int = Field(default=300, ge=5, le=3600)  # 5 is the minimum in Spark
    # 1,000,000 users and accounts, 2 cores, warm JVM: 39, 40, 35 thousand records/s with 1, 2, 4
    shuffle_partitions: int = Field(default=2, ge=1, le=256)
    # A batch job uses less CPU per record (decision 17) but has to be planned first. Break-even is
    # at 100,000 to 400,000 records: 6 to 13 s either way, within a second, in a warm JVM.
    history_records: int = Field(
        default=200_000,
        ge=0,
        description="left joins of at least this many records start with a batch job; 0: never",
    )
    slots: int = Field(default=0, ge=0, description="task slots; 0: the N of local[N]")
    ui: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="URL of the Spark UI, linked from the page",
    )

    @field_validator("conf")
    @classmethod
    def _check_conf(cls, conf: properties.Values) -> properties.Values:
        for name in conf:
            if name in _DEDICATED_SETTINGS:
                raise ValueError(f"{name} has its own setting: {_DEDICATED_SETTINGS[name]}")
        return conf

    @model_validator(mode="after")
    def _check_authentication(self) -> "SparkSettings":
        """Require the secret of a standalone cluster, which livejoin cannot generate."""
        generates_secret = re.match(r"local(\[|$)|yarn$|k8s://", self.master)
        disabled = properties.reveal(self.conf).get(_AUTHENTICATE, "").lower() == "false"
        if not generates_secret and not disabled and f"{_AUTHENTICATE}.secret" not in self.conf:
            raise ValueError(
                f"master is {self.master}, and conf has no {_AUTHENTICATE}.secret: set the one of"
                f' its master and workers, as ${{file:PATH}}, or set {_AUTHENTICATE}: "false"'
            )
        return self

    @field_validator("conf")
    @classmethod
    def _hide_secrets(cls, conf: properties.Values) -> properties.Values:
        return {
            name: SecretStr(value)
            if isinstance(value, str) and redaction.is_spark_secret(name, value)
            else value
            for name, value in conf.items()
        }

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in this process's own JVM, without a cluster."""
        return self.master.startswith("local")

    @property
    def task_slots(self) -> int:
        """Tasks that can run at once, across all queries."""
        local = re.match(r"local\[(\d+)", self.master)
        return self.slots or (int(local[1]) if local else _CLUSTER_SLOTS)
