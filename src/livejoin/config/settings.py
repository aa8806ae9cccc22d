"""The settings: one frozen object, read once.

A YAML file is overridden by the environment, and that by the command line. An unknown key is an
error that suggests the closest known one. `${env:NAME}` and `${file:PATH}` work in every value.
"""

import math
import os
from pathlib import Path
from typing import Any

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

from livejoin.config import setting_errors, settings_files
from livejoin.config.sections import (
    HttpSettings,
    OwnTopicSettings,
    SparkSettings,
    StandbyTime,
    TopicName,
    TopicSettings,
)
from livejoin.config.sources import DeclaredSources, parse_sources
from livejoin.core import spec, start_position
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names, nearest
from livejoin.core.spec import Choice, Join
from livejoin.core.state import Limits
from livejoin.errors import SettingsError
from livejoin.kafka import clusters, properties
from livejoin.runtime import failpoints, processes

ENV_PREFIX = "LIVEJOIN_"
# LIVEJOIN_ variables that are not settings
_OTHER_ENV_VARIABLES = {
    "LIVEJOIN_IVY_SETTINGS",
    "LIVEJOIN_URL",
    "LIVEJOIN_TOKEN",
    "LIVEJOIN_SEEDS",
    failpoints.VARIABLE,
}
_SECTIONS = (*map(str.upper, clusters.SECTIONS), "TOPICS", "OWN_TOPICS", "HTTP", "SPARK")


class Settings(BaseSettings):
    """All settings; with the defaults `livejoin demo` runs."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        hide_input_in_errors=True,
    )

    name: TopicName = Field(
        default="livejoin", description="prefix of livejoin's own topics and consumer groups"
    )
    kafka: properties.Values = Field(
        default={"bootstrap.servers": "127.0.0.1:9092"}, description="Kafka client properties"
    )
    kafka_file: str = Field(
        default="", description="properties file with client properties; kafka overrides it"
    )
    kafka_data: properties.Values = Field(
        default={}, description="cluster of the source topics; empty: that of kafka"
    )
    kafka_data_file: str = Field(default="", description="as kafka_file, for kafka_data")
    kafka_control: properties.Values = Field(
        default={}, description="cluster of the control topic and the replies; as kafka_data"
    )
    kafka_control_file: str = Field(default="", description="as kafka_file, for kafka_control")
    sources: dict[str, Any] = Field(
        default={}, description="what is joined; empty: users and accounts"
    )
    topics: TopicSettings = TopicSettings()
    own_topics: OwnTopicSettings = OwnTopicSettings()
    join: Join = "left"
    start: str | dict[str, str] = Field(
        default="earliest", description=f"{start_position.START_EXPECTED}; or one per source"
    )
    standby_s: StandbyTime = Field(
        default=900, description="how long a replaced generation can be rolled back to"
    )
    build_stall_s: float = Field(
        default=60, gt=0, description="a build fails after this long without progress"
    )
    http: HttpSettings = HttpSettings()
    spark: SparkSettings = SparkSettings()
    checkpoints: str = Field(
        default="", description="any Hadoop path; empty: in this user's state folder"
    )
    logs_kept: int = Field(default=10_000, ge=1)
    rejects_kept: int = Field(default=10_000, ge=1, description="per source")
    control_kept: int = Field(default=10_000, ge=1)
    # Table servers hold all rows in memory.
    max_rows: int = Field(default=2_000_000, ge=1, description="per table; the newest are kept")
    # A browser loads 100,000 rows in 0.5 s; a million took 6 s and 1 GB.
    viewer_rows: int = Field(default=200_000, ge=1, description="per table")

    _warnings: list[str] = PrivateAttr(default_factory=list)
    _declared: DeclaredSources | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _resolve_references(cls, data: Any) -> Any:
        resolved = settings_files.resolve_references(data)
        for section in clusters.SECTIONS:
            file, block = resolved.get(f"{section}_file"), resolved.get(section, {})
            if file and isinstance(block, dict):
                from_file = settings_files.resolve_references(
                    properties.read_file(Path(file).expanduser(), section)
                )
                resolved = {**resolved, section: {**from_file, **block}}
        return resolved

    @field_validator(*clusters.SECTIONS)
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
        self._check_topics()
        _ = self.start_positions  # raises if invalid
        for section, block in self.kafka_blocks.items():
            clients = properties.client_properties(properties.reveal(block), section)
            if not clients.librdkafka.get("bootstrap.servers"):
                raise ValueError(f"{section}: bootstrap.servers is missing")
            self._warnings.extend(clients.warnings)
        self._warnings.extend(clusters.overlaps(self.kafka_blocks))
        if clusters.FIRST not in self.model_fields_set and len(self.kafka_blocks) > 1:
            servers = properties.reveal(self.kafka)[properties.SERVERS]
            self._warnings.append(f"kafka is not set: livejoin's own topics are at {servers}")
        return self

    def _check_topics(self) -> None:
        topics = self.topics
        if self.sources:
            self._declared = parse_sources(self.sources, self.join)
            if given := sorted(topics.model_fields_set & {*spec.DEFAULT.source_names}):
                raise ValueError(
                    f"topics.{given[0]}: with sources, topics are in sources.NAME.topic"
                )
        names = self.initial_choice.topics
        if repeated := self.initial_choice.repeated_topic:
            both = [self.topic_setting(one) for one, topic in names.items() if topic == repeated]
            raise ValueError(f"{' and '.join(both)} must differ")
        if Names(self.name).is_own(topics.control):
            raise ValueError(f"topics.control is {topics.control!r}, one of livejoin's own topics")
        for role, name in names.items():
            setting = self.topic_setting(role)
            if name == topics.control:
                raise ValueError(f"{setting} must not be the control topic {name!r}")
            if Names(self.name).is_own(name):
                raise ValueError(f"{setting} is {name!r}, one of livejoin's own topics")

    @property
    def kafka_blocks(self) -> dict[clusters.Section, properties.Values]:
        """The blocks of Kafka properties that are given."""
        given: dict[clusters.Section, properties.Values] = {clusters.FIRST: self.kafka}
        others = {section: getattr(self, section) for section in clusters.OTHERS}
        return given | {section: block for section, block in others.items() if block}

    @property
    def data_properties(self) -> dict[str, str]:
        """The properties that apply to the source topics."""
        return properties.reveal(self.kafka_data or self.kafka)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems that do not prevent a start."""
        return tuple(self._warnings)

    @property
    def initial_choice(self) -> Choice:
        """Topics and join until a control message requests others."""
        if self._declared is not None:
            return Choice(dict(self._declared.topics), self.join)
        topics = (getattr(self.topics, source) for source in spec.DEFAULT.source_names)
        return spec.DEFAULT.choice(*topics, join=self.join)

    def topic_setting(self, source: str) -> str:
        """The setting that names the topic of a source."""
        return f"topics.{source}" if self._declared is None else f"sources.{source}.topic"

    @property
    def join_spec(self) -> spec.JoinSpec:
        """The sources and their fields."""
        return spec.DEFAULT if self._declared is None else self._declared.spec

    @property
    def checkpoint_path(self) -> str:
        """Folder of the checkpoints, as a Hadoop path."""
        return self.checkpoints or str(processes.state_folder() / self.name / "checkpoints")

    @property
    def start_positions(self) -> dict[str, str]:
        """Start position of each source; `auto.offset.reset` takes precedence over `start`."""
        reset = self.data_properties.get("auto.offset.reset", "")
        newest = ("latest", "largest", "end")  # Java's name and librdkafka's
        chosen = self.start if not reset else "latest" if reset in newest else "earliest"
        sources = self.join_spec.source_names
        positions = chosen if isinstance(chosen, dict) else dict.fromkeys(sources, chosen)
        if unknown := positions.keys() - set(sources):
            raise ValueError(f"start: unknown source {min(unknown)!r}")
        try:
            return {
                name: start_position.normalize_start(positions.get(name, "earliest"))
                for name in sources
            }
        except ValueError as error:
            raise ValueError(f"start: {error}, got {chosen!r}") from None

    @property
    def rules(self) -> MessageRules:
        """Rules on which topics a control message may name."""
        return MessageRules(
            Names(self.name), self.topics.control, self.topics.allowed, self.join_spec
        )

    @property
    def limits(self) -> Limits:
        """Limits on how long generations are kept and whether they fit."""
        standby_s = math.inf if self.standby_s == "forever" else self.standby_s
        return Limits(
            standby_s,
            self.build_stall_s,
            self.spark.task_slots,
            self.spark.shuffle_partitions,
            self.max_rows,
        )


def load(file: Path | None = None, **overrides: Any) -> Settings:
    """Read and validate the settings. Raises SettingsError naming each wrong one."""
    _check_environment()
    from_file = settings_files.normalize(settings_files.read_file(file) if file else {})

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
            from_env = InitSettingsSource(settings_cls, settings_files.normalize(env_settings()))
            return init_settings, from_env, InitSettingsSource(settings_cls, from_file)

    try:
        chosen = Loaded(**settings_files.normalize(overrides))
    except pydantic.ValidationError as error:
        raise SettingsError(setting_errors.explain(error, Settings, file)) from error
    except pydantic_settings.SettingsError as error:
        # the message quotes the field, not the variable
        field = str(error).partition('"')[2].partition('"')[0].upper()
        raise SettingsError(
            f"environment variable {ENV_PREFIX}{field} is not JSON",
            hint=f"Write an object, or set one key with {ENV_PREFIX}{field}__KEY.",
        ) from error
    chosen._warnings.extend(  # noqa: SLF001 - own class
        f"{name} is in plain text in {file}: use ${{env:NAME}} or ${{file:PATH}} instead"
        for name in settings_files.plain_secrets(from_file)
    )
    return chosen


def values_by_origin(file: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the values given in each origin, unresolved, in order of precedence."""
    from_env = settings_files.normalize(EnvSettingsSource(Settings)())
    from_file = settings_files.normalize(settings_files.read_file(file) if file else {})
    origins = {"environment": from_env, "file": from_file}
    for section in clusters.SECTIONS:
        setting = f"{section}_file"
        if file_name := from_env.get(setting) or from_file.get(setting):
            path = Path(settings_files.resolve_references(file_name)).expanduser()
            origins[setting] = {section: properties.read_file(path, section)}
    return origins


def environment_variables() -> list[str]:
    """The names of the environment variables that are meant as settings."""
    return [
        variable
        for variable in os.environ
        if variable.upper().startswith(ENV_PREFIX) and variable not in _OTHER_ENV_VARIABLES
    ]


def _check_environment() -> None:
    known = {name.upper() for name in Settings.model_fields}
    for variable in environment_variables():
        setting, _, nested = variable[len(ENV_PREFIX) :].upper().partition("__")
        if setting not in known or (nested and setting not in _SECTIONS):
            close = nearest(setting, known)
            raise SettingsError(
                f"environment variable {variable} is not a setting",
                hint=f"Did you mean {ENV_PREFIX}{close}?" if close else "",
            )
