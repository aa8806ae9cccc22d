"""The sections of the settings, each with its defaults: topics, where to serve, where to run."""

import re
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from livejoin import redaction
from livejoin.core.control_messages import is_topic_name
from livejoin.kafka import properties

_CLUSTER_SLOTS = 64  # where nobody says how many there are
# what slots and checkpoints are reckoned by must not be said twice
_AUTHENTICATE = "spark.authenticate"
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


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSettings(_Section):
    """Which topics are read until a control message names others."""

    users: TopicName = "users"
    accounts: TopicName = "accounts"
    control: TopicName = "control"
    allowed: tuple[str, ...] = Field(
        default=(), description="which topics a message may name, * for anything; empty: all"
    )


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://" + _HOST.pattern)


class TlsSettings(_Section):
    """What the page and the API are served with, where it is to be encrypted."""

    certificate: str = Field(default="", description="PEM file, with the chain")
    key: str = Field(default="", description="PEM file; empty: it is in the other one")


class HttpSettings(_Section):
    """Where the page and the API are served, and to whom."""

    host: str = "127.0.0.1"
    port: int = Field(default=10000, ge=0, le=65535, description="0 takes any free port")
    tls: TlsSettings = TlsSettings()
    insecure: bool = Field(default=False, description="no tokens; needed where others have no TLS")
    hosts: tuple[str, ...] = Field(default=(), description="further names that it is reached by")
    origins: tuple[str, ...] = Field(default=(), description="other sites whose pages may ask")
    connections: int = Field(default=4096, ge=1)
    connections_per_address: int = Field(default=2048, ge=1)
    connections_per_second: float = Field(default=100, gt=0, description="new, of one address")

    @model_validator(mode="after")
    def _check_consistency(self) -> "HttpSettings":
        for name in self.hosts:
            if not _HOST.fullmatch(name):
                raise ValueError(f"hosts: {name!r} is no name like live.example.com or name:8443")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"origins: {origin!r} is no origin like https://app.example.com")
        if self.tls.key and not self.tls.certificate:
            raise ValueError("tls.key is of no use without tls.certificate")
        return self


class SparkSettings(_Section):
    """Where the pipeline runs."""

    # Slots are threads here, and a query holds its own: three of two times 64 partitions fit.
    master: str = "local[512]"
    conf: properties.Values = {}
    # A batch's end is a pause of about a second, and p99 stays below 150 ms only if that is less
    # than 1 % of the time; a crash replays the batch, 45 s for 300 s at 500 messages/s.
    batch_s: int = Field(default=300, ge=5, le=3600)  # Spark takes no less than 5
    # 1,000,000 users and accounts on two cores, warm: 39, 40 and 35 thousand records/s with 1, 2, 4
    shuffle_partitions: int = Field(default=2, ge=1, le=256)
    # A batch job takes less CPU for a record (decision 17) and has to be planned first: for 100,000
    # to 400,000 records both took as long, within a second of 6 to 13 in a warm JVM.
    history_records: int = Field(
        default=200_000,
        ge=0,
        description="a left join of as many records begins with a batch job; 0: never",
    )
    slots: int = Field(default=0, ge=0, description="task slots; 0: as many as local[N] says")
    ui: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="address of Spark's own pages, which the page links to",
    )

    @field_validator("conf")
    @classmethod
    def _check_conf(cls, conf: properties.Values) -> properties.Values:
        for name in conf:
            if name in _DEDICATED_SETTINGS:
                raise ValueError(f"{name} has a setting of its own: {_DEDICATED_SETTINGS[name]}")
        return conf

    @model_validator(mode="after")
    def _check_authentication(self) -> "SparkSettings":
        """A cluster's processes share one secret, which livejoin cannot choose for them."""
        makes_its_own = re.match(r"local(\[|$)|yarn$|k8s://", self.master)
        off = properties.reveal(self.conf).get(_AUTHENTICATE, "").lower() == "false"
        if not makes_its_own and not off and f"{_AUTHENTICATE}.secret" not in self.conf:
            raise ValueError(
                f"master is {self.master}, and conf has no {_AUTHENTICATE}.secret: give the one of"
                f' its master and workers, as ${{file:PATH}}; or say {_AUTHENTICATE}: "false"'
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
        """Whether Spark runs in a JVM of ours alone."""
        return self.master.startswith("local")

    @property
    def task_slots(self) -> int:
        """How many tasks can run at once, all queries together."""
        named = re.match(r"local\[(\d+)", self.master)
        return self.slots or (int(named[1]) if named else _CLUSTER_SLOTS)
