"""The schema: sources, tables, columns, joins, and the start positions of sources."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Type = Literal["string", "int64", "double", "timestamp"]
Join = Literal["left", "inner", "left_outer"]


@dataclass(frozen=True)
class Column:
    """A named, typed field of a record or column of a table."""

    name: str
    type: Type


@dataclass(frozen=True)
class Source:
    """An input: the fields of its records, and the table that shows them."""

    name: str
    fields: tuple[Column, ...]
    table: str


@dataclass(frozen=True)
class TableSpec:
    """A table with a stable name. Data tables belong to a generation, the others to livejoin."""

    name: str
    columns: tuple[Column, ...]
    data: bool


@dataclass(frozen=True)
class Choice:
    """What a control message requests: the topics to read and how to join them."""

    users: str
    accounts: str
    join: Join = "left"

    def topic(self, source: str) -> str:
        """The topic of a source."""
        return {"users": self.users, "accounts": self.accounts}[source]

    def __str__(self) -> str:
        return f"{self.users} {self.join} {self.accounts}"


def _parse_columns(text: str) -> tuple[Column, ...]:
    """Parse `name type, name type`."""
    pairs = (column.split() for column in text.split(","))
    return tuple(Column(name, kind) for name, kind in pairs)  # type: ignore[arg-type]


JOIN_KEY = "userId"

USERS = Source(
    "users", _parse_columns("userId string, name string, email string, age int64"), "users_ui"
)
ACCOUNTS = Source(
    "accounts", _parse_columns("userId string, accountType string, balance double"), "accounts_ui"
)
SOURCES = (USERS, ACCOUNTS)
SOURCE_OF_TABLE = {source.table: source.name for source in SOURCES}

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

_DATA = {
    USERS.table: USERS.fields,
    ACCOUNTS.table: ACCOUNTS.fields,
    FINAL: USERS.fields + ACCOUNTS.fields[1:],
    REJECTS: _parse_columns(
        "source string, topic string, partition int64, offset int64,"
        " ts timestamp, reason string, raw string"
    ),
}
_SYSTEM = {
    STATUS: _parse_columns(
        "usersTopic string, accountsTopic string, joinType string, lastApplied string,"
        " generation int64, state string, progress int64, message string"
    ),
    LOGS: _parse_columns(
        "ts timestamp, level string, msg string, event string, generation int64, control string"
    ),
    CONTROL: _parse_columns(
        "usersTopic string, accountsTopic string, joinType string, partition int64, offset int64,"
        " ts timestamp, by string, outcome string, reason string, raw string"
    ),
    GENERATIONS: _parse_columns(
        "generation int64, usersTopic string, accountsTopic string, joinType string, state string,"
        " by string, requestedAt timestamp, liveAt timestamp, retiredAt timestamp,"
        " catchUpSeconds double, read int64, rejected int64, tombstones int64, rows int64,"
        " message string, sources string"
    ),
}

TABLES: dict[str, TableSpec] = {
    **{name: TableSpec(name, (*columns, ID, TS), data=True) for name, columns in _DATA.items()},
    **{name: TableSpec(name, (*columns, ID), data=False) for name, columns in _SYSTEM.items()},
}
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
ALL_TABLES = TABLES | RESTRICTED

# A start position: `earliest`, `latest`, an ISO timestamp, or an age such as `1h`.
_AGE = re.compile(r"([0-9]{1,9})\s*(ms|s|m|h|d|w)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
START_EXPECTED = "earliest, latest, a time such as 2026-01-31T12:00:00Z, or an age such as 1h"


def normalize_start(text: str) -> str:
    """The canonical form of a start position; ValueError if it is none."""
    word = text.strip()
    if word.lower() in ("earliest", "latest"):
        return word.lower()
    if not _AGE.fullmatch(word.lower()):
        _parse_time(word)
    return word


def start_time(start: str, now: float) -> float | None:
    """The timestamp to read from; None for `earliest` and `latest`."""
    if start in ("earliest", "latest"):
        return None
    age = age_seconds(start)
    if age is not None:
        return max(0.0, now - age)
    return max(0.0, _parse_time(start))


def age_seconds(text: str) -> float | None:
    """Seconds of an age such as `1h` or `30d`; None if it is not an age."""
    age = _AGE.fullmatch(text.strip().lower())
    return int(age[1]) * _UNITS[age[2]].total_seconds() if age else None


def _parse_time(text: str) -> float:
    try:
        # ASCII only: fromisoformat accepts any character between date and time
        at = datetime.fromisoformat(text.encode("ascii").decode())
        # UTC if there is no zone
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"expected {START_EXPECTED}") from None
