"""The settings: one frozen object, read once.

They come from a YAML file, the environment and the command line, in that order. Unknown keys are
errors that name the nearest known one. `${env:NAME}` and `${file:PATH}` are replaced everywhere.
"""

import math
import os
from pathlib import Path
from typing import Any, Literal

import pydantic
import pydantic_settings
from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from livejoin.config import settings_files as given
from livejoin.config.sections import HttpSettings, SparkSettings, TopicName, TopicSettings
from livejoin.core import spec
from livejoin.core import start_position as start
from livejoin.core.control_messages import TopicRules
from livejoin.core.names import Names
from livejoin.core.spec import Choice, Join
from livejoin.core.state import Limits
from livejoin.core.suggest import nearest
from livejoin.errors import SettingsError
from livejoin.kafka import properties
from livejoin.runtime import failpoints, processes

ENV_PREFIX = "LIVEJOIN_"
# Variables of ours that are not settings.
_OTHER_ENV_VARIABLES = {
    "LIVEJOIN_IVY_SETTINGS",
    "LIVEJOIN_URL",
    "LIVEJOIN_TOKEN",
    "LIVEJOIN_SEEDS",
    failpoints.VARIABLE,
}
_SECTIONS = ("KAFKA", "TOPICS", "HTTP", "SPARK")


class Settings(BaseSettings):
    """Everything that can be set. Each setting has a default with which `livejoin demo` runs."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        hide_input_in_errors=True,
    )

    name: TopicName = Field(
        default="livejoin", description="prefix of livejoin's own topics and groups"
    )
    kafka: properties.Values = Field(
        default={"bootstrap.servers": "127.0.0.1:9092"}, description="client properties"
    )
    kafka_file: str = Field(
        default="", description="a file of client properties; those of kafka go over it"
    )
    topics: TopicSettings = TopicSettings()
    join: Join = "left"
    start: str | dict[str, str] = Field(
        default="earliest", description=f"{start.EXPECTED}; or one per source"
    )
    standby_s: float | Literal["forever"] = Field(
        default=900, ge=0, description="how long a generation that was replaced can be gone back to"
    )
    build_stall_s: float = Field(
        default=60, gt=0, description="a build that makes no progress for so long has failed"
    )
    http: HttpSettings = HttpSettings()
    spark: SparkSettings = SparkSettings()
    checkpoints: str = Field(
        default="", description="any Hadoop path; empty: a folder of this user's"
    )
    logs_kept: int = Field(default=10_000, ge=1)
    rejects_kept: int = Field(default=10_000, ge=1, description="per source")
    control_kept: int = Field(default=10_000, ge=1)
    # Every table server holds every row in memory.
    max_rows: int = Field(default=2_000_000, ge=1, description="of a table: the newest stay")
    # A browser takes 100,000 rows in 0.5 s; a million took 6 s and a gigabyte.
    viewer_rows: int = Field(default=200_000, ge=1, description="per table")

    _warnings: list[str] = PrivateAttr(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _resolve_references(cls, data: Any) -> Any:
        filled = given.resolve_references(data)
        file, block = filled.get("kafka_file"), filled.get("kafka", {})
        if file and isinstance(block, dict):
            below = given.resolve_references(properties.read_file(Path(file).expanduser()))
            filled = {**filled, "kafka": {**below, **block}}
        return filled

    @field_validator("kafka")
    @classmethod
    def _hide_secrets(cls, kafka: properties.Values) -> properties.Values:
        return {
            name: SecretStr(value)
            if isinstance(value, str) and properties.is_secret(name)
            else value
            for name, value in kafka.items()
        }

    @model_validator(mode="after")
    def _check_consistency(self) -> "Settings":
        topics = self.topics
        if topics.users == topics.accounts:
            raise ValueError("topics.users and topics.accounts must differ")
        if Names(self.name).is_own(topics.control):
            raise ValueError(f"topics.control is {topics.control!r}, one of livejoin's own topics")
        for role, name in (("users", topics.users), ("accounts", topics.accounts)):
            if name == topics.control:
                raise ValueError(f"topics.{role} must not be the control topic {name!r}")
            if Names(self.name).is_own(name):
                raise ValueError(f"topics.{role} is {name!r}, one of livejoin's own topics")
        _ = self.start_positions
        clients = properties.client_properties(properties.reveal(self.kafka))
        if not clients.librdkafka.get("bootstrap.servers"):
            raise ValueError("kafka needs bootstrap.servers")
        self._warnings.extend(clients.warnings)
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong but bearable."""
        return tuple(self._warnings)

    @property
    def initial_choice(self) -> Choice:
        """What is joined until somebody asks for something else."""
        return Choice(self.topics.users, self.topics.accounts, self.join)

    @property
    def checkpoint_path(self) -> str:
        """Where checkpoints are kept."""
        return self.checkpoints or str(processes.state_folder() / self.name / "checkpoints")

    @property
    def start_positions(self) -> dict[str, str]:
        """Where each source starts: the Kafka properties decide where they say something."""
        reset = properties.reveal(self.kafka).get("auto.offset.reset", "")
        newest = ("latest", "largest", "end")  # Java's word and librdkafka's
        chosen = self.start if not reset else "latest" if reset in newest else "earliest"
        sources = [source.name for source in spec.SOURCES]
        given = chosen if isinstance(chosen, dict) else dict.fromkeys(sources, chosen)
        if unknown := given.keys() - set(sources):
            raise ValueError(f"start: unknown source {min(unknown)!r}")
        try:
            return {name: start.normalize(given.get(name, "earliest")) for name in sources}
        except ValueError as error:
            raise ValueError(f"start: {error}, got {chosen!r}") from None

    @property
    def rules(self) -> TopicRules:
        """Which topics a control message may name."""
        return TopicRules(Names(self.name), self.topics.control, self.topics.allowed)

    @property
    def limits(self) -> Limits:
        """What decides how long generations stay, and whether they fit."""
        standby_s = math.inf if self.standby_s == "forever" else self.standby_s
        return Limits(
            standby_s,
            self.build_stall_s,
            self.spark.task_slots,
            self.spark.shuffle_partitions,
            self.max_rows,
        )


def load(file: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings, or say which one is wrong."""
    _check_environment()
    from_file = given.normalize(given.read_file(file) if file else {})

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            *_others: PydanticBaseSettingsSource,
            **_named: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            from_env = InitSettingsSource(settings_cls, given.normalize(env_settings()))
            return init_settings, from_env, InitSettingsSource(settings_cls, from_file)

    try:
        chosen = Loaded(**given.normalize(overrides))
    except pydantic.ValidationError as error:
        raise SettingsError("; ".join(map(_explain, error.errors()))) from error
    except pydantic_settings.SettingsError as error:
        # its message names the field in quotes, not the variable
        field = str(error).partition('"')[2].partition('"')[0].upper()
        raise SettingsError(
            f"environment variable {ENV_PREFIX}{field} is not JSON",
            hint=f"Write an object, or set one key with {ENV_PREFIX}{field}__KEY.",
        ) from error
    chosen._warnings.extend(  # noqa: SLF001 - our own
        f"{name} stands in {file} as it is: better ${{env:NAME}} or ${{file:PATH}}"
        for name in given.plain_secrets(from_file)
    )
    return chosen


def values_by_origin(file: Path | None = None) -> dict[str, dict[str, Any]]:
    """What was given where, as it is written; the strongest first."""
    from_env = given.normalize(EnvSettingsSource(Settings)())
    from_file = given.normalize(given.read_file(file) if file else {})
    found = {"environment": from_env, "file": from_file}
    if named := from_env.get("kafka_file") or from_file.get("kafka_file"):
        path = Path(given.resolve_references(named)).expanduser()
        found["kafka_file"] = {"kafka": properties.read_file(path)}
    return found


def _check_environment() -> None:
    known = {name.upper() for name in Settings.model_fields}
    for variable in os.environ:
        if not variable.upper().startswith(ENV_PREFIX) or variable in _OTHER_ENV_VARIABLES:
            continue
        setting, _, nested = variable[len(ENV_PREFIX) :].upper().partition("__")
        if setting not in known or (nested and setting not in _SECTIONS):
            close = nearest(setting, known)
            raise SettingsError(
                f"environment variable {variable} is no setting",
                hint=f"Did you mean {ENV_PREFIX}{close}?" if close else "",
            )


def _explain(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        said = error["msg"].removeprefix("Value error, ")
        # what stands under kafka or spark may be a secret
        shown = "" if error["loc"][:1] in (("kafka",), ("spark",)) else f", got {error['input']!r}"
        return f"{where}: {said}{shown}" if where else said
    section: Any = Settings
    for part in error["loc"][:-1]:
        section = section.model_fields[part].annotation
    close = nearest(str(error["loc"][-1]), section.model_fields)
    known = f"did you mean {close}?" if close else f"known are {', '.join(section.model_fields)}"
    return f"{where} is no setting: {known}"
