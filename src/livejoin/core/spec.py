"""The schema as data: sources, the tables and columns that follow from them, choices of topics.

A `JoinSpec` belongs to each generation. Nothing but `DEFAULT` names a source or a field.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

Type = str  # one of `SCALAR_TYPES`, or decimal(p,s)
SCALAR_TYPES: tuple[Type, ...] = ("string", "int64", "double", "boolean", "timestamp")
MAX_PRECISION = 38  # of a decimal
Join = Literal["left", "inner", "left_outer"]
SOURCE_TABLE_SUFFIX = "_ui"
TOPIC_FIELD_SUFFIX = "Topic"
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True)
class Column:
    """A named, typed field of a record or column of a table."""

    name: str
    type: Type
    path: str = ""  # of a field, where its value is in the record; empty: under its own name

    @property
    def steps(self) -> tuple[str | int, ...]:
        """The path's names and array indexes: `$.a[0].b` is ("a", 0, "b")."""
        if not self.path:
            return (self.name,)
        return tuple(name or int(index) for name, index in _STEP.findall(self.path))

    @property
    def label(self) -> str:
        """What reasons of rejects call the field."""
        return self.path or self.name

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal."""
        found = _DECIMAL.fullmatch(self.type)
        return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Source:
    """An input: the fields of its records, one of which is joined on."""

    name: str
    fields: tuple[Column, ...]
    key: str

    @property
    def table(self) -> str:
        """The table that shows its records."""
        return f"{self.name}{SOURCE_TABLE_SUFFIX}"

    @property
    def topic_field(self) -> str:
        """Its topic's field in control messages, and column in livejoin's own tables."""
        return f"{self.name}{TOPIC_FIELD_SUFFIX}"

    @property
    def key_column(self) -> Column:
        """The field that is joined on."""
        return next(column for column in self.fields if column.name == self.key)


@dataclass(frozen=True)
class TableSpec:
    """A table with a stable name. Data tables belong to a generation, the others to livejoin."""

    name: str
    columns: tuple[Column, ...]
    data: bool


@dataclass(frozen=True)
class Choice:
    """What a control message requests: the topic of each source, and how to join them."""

    topics: Mapping[str, str]  # by source, the driver first
    join: Join = "left"

    def __str__(self) -> str:
        driver, *lookups = self.topics.values() or ("",)
        return f"{driver} {self.join} {', '.join(lookups)}"

    @property
    def repeated_topic(self) -> str:
        """A topic that two sources would read; empty if there is none."""
        names = list(self.topics.values())
        return next((name for name in names if names.count(name) > 1), "")


def _parse_columns(text: str) -> tuple[Column, ...]:
    """Parse `name type, name type`."""
    pairs = (column.split() for column in text.split(","))
    return tuple(Column(name, kind) for name, kind in pairs)


FINAL = "final_ui"
REJECTS = "rejects_ui"
STATUS = "orchestrator_status"
LOGS = "orchestrator_logs"
CONTROL = "control_raw"
GENERATIONS = "generations"
GENERATIONS_KEPT = 200  # rows
AUDIT = "audit"
AUDIT_KEPT = 10_000  # rows

# Every row has an id; a data row also the Kafka timestamp of the newest input behind it.
ID = Column("_id", "string")
TS = Column("_ts", "timestamp")

_REJECT_COLUMNS = _parse_columns(
    "source string, topic string, partition int64, offset int64,"
    " ts timestamp, reason string, raw string"
)
_JOIN_COLUMN = Column("joinType", "string")
_STATUS_COLUMNS = _parse_columns(
    "lastApplied string, generation int64, state string, progress int64, message string"
)
_LOG_COLUMNS = _parse_columns(
    "ts timestamp, level string, msg string, event string, generation int64, control string"
)
_CONTROL_COLUMNS = _parse_columns(
    "partition int64, offset int64, ts timestamp, by string, outcome string, reason string,"
    " raw string"
)
_GENERATION_COLUMNS = _parse_columns(
    "state string, by string, requestedAt timestamp, liveAt timestamp, retiredAt timestamp,"
    " catchUpSeconds double, read int64, rejected int64, tombstones int64, rows int64,"
    " message string, sources string"
)

# For the role operator only.
RESTRICTED: dict[str, TableSpec] = {
    AUDIT: TableSpec(
        AUDIT,
        (
            *_parse_columns(
                "ts timestamp, who string, role string, address string, action string,"
                " before string, after string, outcome string, detail string, times int64"
            ),
            ID,
        ),
        data=False,
    )
}


def system_tables(sources: tuple[Source, ...]) -> dict[str, TableSpec]:
    """Livejoin's own tables that viewers may read; some have a column for each source's topic."""
    topics = (*(Column(s.topic_field, "string") for s in sources), _JOIN_COLUMN)
    columns = {
        STATUS: (*topics, *_STATUS_COLUMNS),
        LOGS: _LOG_COLUMNS,
        CONTROL: (*topics, *_CONTROL_COLUMNS),
        GENERATIONS: (Column("generation", "int64"), *topics, *_GENERATION_COLUMNS),
    }
    return {name: TableSpec(name, (*own, ID), data=False) for name, own in columns.items()}


@dataclass(frozen=True)
class JoinSpec:
    """Sources with their fields and keys; the first one drives the join."""

    sources: tuple[Source, ...]

    @property
    def driver(self) -> Source:
        """The source whose rows are joined."""
        return self.sources[0]

    @property
    def lookups(self) -> tuple[Source, ...]:
        """The sources that are joined to it."""
        return self.sources[1:]

    @cached_property
    def versioned_lookups(self) -> tuple[str, ...]:
        """The lookups that have a version each in joined rows; none where one version is enough."""
        names = self.source_names[1:]
        return names if len(names) > 1 else ()

    @property
    def joins(self) -> tuple[Join, ...]:
        """The joins that a choice may have: several lookups are joined left."""
        return ("left",) if self.versioned_lookups else get_args(Join)

    @cached_property
    def source_names(self) -> tuple[str, ...]:
        """The names of the sources, the driver first."""
        return tuple(source.name for source in self.sources)

    @cached_property
    def source_of_table(self) -> dict[str, str]:
        """Sources by the table that shows their records."""
        return {source.table: source.name for source in self.sources}

    @cached_property
    def source_of_topic_field(self) -> dict[str, str]:
        """Sources by the field that names their topic."""
        return {source.topic_field: source.name for source in self.sources}

    @property
    def key(self) -> Column:
        """The join key, under the driver's name for it."""
        return self.driver.key_column

    @cached_property
    def joined_names(self) -> Mapping[str, Mapping[str, str]]:
        """The name of each field in `final_ui` and in changelog records, by source and field.

        A name that is taken gets the source's name before it; ValueError if that is taken too.
        """
        key = self.key.name
        taken = {key.lower()}
        names: dict[str, dict[str, str]] = {}
        for source in self.sources:
            names[source.name] = {source.key: key}
            for column in source.fields:
                if column.name == source.key:
                    continue
                name = column.name
                if name.lower() in taken:
                    name = f"{source.name}_{column.name}"
                if name.lower() in taken:
                    raise ValueError(
                        f"sources.{source.name}.fields.{column.name}: {FINAL} has columns"
                        f" {column.name} and {name} already; rename the field, with a path"
                    )
                taken.add(name.lower())
                names[source.name][column.name] = name
        return names

    @cached_property
    def joined_columns(self) -> tuple[Column, ...]:
        """The columns of `final_ui`: the key, the driver's other fields, those of each lookup."""
        columns = [Column(self.key.name, self.key.type)]
        for source in self.sources:
            names = self.joined_names[source.name]
            columns += [
                Column(names[c.name], c.type) for c in source.fields if c.name != source.key
            ]
        return tuple(columns)

    @cached_property
    def tables(self) -> dict[str, TableSpec]:
        """All tables that viewers may read, by name."""
        fields = {
            source.table: tuple(Column(c.name, c.type) for c in source.fields)
            for source in self.sources
        }
        data = {**fields, FINAL: self.joined_columns, REJECTS: _REJECT_COLUMNS}
        return {
            **{
                name: TableSpec(name, (*columns, ID, TS), data=True)
                for name, columns in data.items()
            },
            **system_tables(self.sources),
        }

    @cached_property
    def all_tables(self) -> dict[str, TableSpec]:
        """All tables, also those for operators only."""
        return self.tables | RESTRICTED

    @cached_property
    def data_tables(self) -> tuple[str, ...]:
        """The names of the tables that belong to a generation."""
        return tuple(name for name, table in self.tables.items() if table.data)

    def choice(self, *topics: str, join: Join = "left") -> Choice:
        """The choice of these topics, in the order of the sources."""
        return Choice(dict(zip(self.source_names, topics, strict=True)), join)

    def allows(self, join: Join) -> bool:
        """Whether the sources can be joined like this: only `left` takes several lookups."""
        return join in self.joins

    def fitted(self, choice: Choice, default: Choice) -> Choice:
        """A choice for these sources: what another spec's choice lacks comes from the default."""
        topics = {name: choice.topics.get(name, default.topics[name]) for name in self.source_names}
        fitted = Choice(topics, choice.join if self.allows(choice.join) else default.join)
        return default if fitted.repeated_topic else fitted

    def topic_cells(self, choice: Choice | None) -> dict[str, str | None]:
        """A choice as cells of livejoin's own tables."""
        topics: Mapping[str, str] = choice.topics if choice else {}
        cells = {source.topic_field: topics.get(source.name) for source in self.sources}
        return {**cells, _JOIN_COLUMN.name: choice.join if choice else None}

    def to_json(self) -> dict[str, Any]:
        """Encode for the ledger and for clients."""
        return {
            "sources": [
                {
                    "name": source.name,
                    "key": source.key,
                    "fields": [
                        {"name": c.name, "type": c.type, **({"path": c.path} if c.path else {})}
                        for c in source.fields
                    ],
                }
                for source in self.sources
            ]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "JoinSpec":
        """Decode what `to_json` made."""
        return cls(
            tuple(
                Source(
                    source["name"],
                    tuple(
                        Column(c["name"], c["type"], c.get("path", "")) for c in source["fields"]
                    ),
                    source["key"],
                )
                for source in data["sources"]
            )
        )


# What is joined where the settings declare no sources.
DEFAULT = JoinSpec(
    (
        Source(
            "users", _parse_columns("userId string, name string, email string, age int64"), "userId"
        ),
        Source(
            "accounts",
            _parse_columns("userId string, accountType string, balance double"),
            "userId",
        ),
    )
)
