"""The changelog format: changed rows, removals, bundles and marks, and which version wins.

The pipeline writes this format with Spark expressions and the tables read it in bulk with Arrow;
this module is the definition that both are tested against. `docs/changelog.md` tells it to
strangers.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from livejoin.core import spec

# A tombstone has no row, yet it must be counted: its record stands in a table that nobody sees.
TOMBSTONES = "tombstones"

# Where a generation's state learns of its history. Some of its records leave a mark, no row.
BOOTSTRAP = "feed"

# Timestamp (ms), partition and offset of the newest input that may change; None is older than any.
Version = tuple[int, int, int] | None

# The layout of a bundle is fixed, so that a follower can take it apart without reading all of it:
# what the rows share, then their identities, then a line for what each has of its own.
BUNDLE_PREFIX = "bundle/"  # of a key
BUNDLE_MIN_ROWS = (
    500  # rows that come one by one: a bundle takes a follower as long as 400 to 600 of a run
)
BUNDLE_MAX_ROWS = 5000  # rows of a bundle: of 500, a follower takes two and a half times as long
BUNDLE_MAX_PART_BYTES = 1024  # of what rows share, and of what each has of its own, at most

BUNDLE_IDS = ',\n"ids":'
BUNDLE_ROWS = ',\n"rows":[\n'
BUNDLE_NEXT = ",\n"
BUNDLE_END = "\n]}"

_FINAL_PREFIX = f"{spec.FINAL}/".encode()
_SOURCE_OF_TABLE = {**{source.table: source.name for source in spec.SOURCES}, BOOTSTRAP: BOOTSTRAP}


class Position(NamedTuple):
    """Where an input record stands."""

    source: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


@dataclass(frozen=True)
class ChangelogRecord:
    """One changelog record. Without a row it is a removal, or the mark of a tombstone."""

    table: str
    id: str
    row: Mapping[str, Any] | None
    ts: int
    version: Version = None

    def key(self) -> bytes:
        """The record's Kafka key."""
        return f"{self.table}/{self.id}".encode()

    def value(self) -> bytes:
        """The record's Kafka value: nulls are left out, at every level."""
        fields: dict[str, Any] = {"ts": self.ts}
        if self.row is not None:
            cells = {name: cell for name, cell in self.row.items() if cell is not None}
            fields = {"row": cells, **fields}
        if self.version is not None:
            fields["version"] = list(self.version)
        return compact_json(fields).encode()


@dataclass(frozen=True)
class Bundle:
    """Rows with the cells of `row` and each its own ones in `rows`; without both, removals."""

    table: str
    ids: Sequence[str]
    ts: int
    version: Version = None
    row: Mapping[str, Any] | None = None
    rows: Sequence[Mapping[str, Any]] = ()  # with a `ts` each

    def value(self) -> bytes:
        """The record's Kafka value."""
        shared = {"row": self.row, "ts": self.ts, "version": self.version}
        head = compact_json({name: one for name, one in shared.items() if one is not None})[:-1]
        text = f"{head}{BUNDLE_IDS}{compact_json(self.ids)}"
        own = (
            ""
            if self.row is None
            else f"{BUNDLE_ROWS}{BUNDLE_NEXT.join(map(compact_json, self.rows))}{BUNDLE_END[:-1]}"
        )
        return f"{text}{own}}}".encode()

    def records(self) -> list[ChangelogRecord]:
        """What it says, row by row. A row is as old as the newer of its parts."""
        if self.row is None:
            return [
                ChangelogRecord(self.table, row_id, None, self.ts, self.version)
                for row_id in self.ids
            ]
        return [
            ChangelogRecord(
                self.table,
                row_id,
                {**self.row, **{name: cell for name, cell in own.items() if name != "ts"}},
                max(self.ts, own["ts"]),
                self.version,
            )
            for row_id, own in zip(self.ids, self.rows, strict=True)
        ]


def compact_json(value: Any) -> str:
    """Text as the changelog has it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_record(key: bytes, value: bytes) -> ChangelogRecord:
    """Read one record back."""
    table, _, row_id = key.decode().partition("/")
    fields = json.loads(value)
    version = fields.get("version")
    return ChangelogRecord(
        table, row_id, fields.get("row"), fields["ts"], tuple(version) if version else None
    )


def read_bundle(key: bytes, value: bytes) -> Bundle:
    """Read one back."""
    fields = json.loads(value)
    version = fields.pop("version", None)
    return Bundle(key.decode().split("/")[1], version=tuple(version) if version else None, **fields)


def is_newer(version: Version, than: Version) -> bool:
    """Whether a record replaces the one that is there."""
    return version is not None and (than is None or version > than)


def marked_position(key: bytes) -> Position | None:
    """Which input record this one is the last trace of; None where it only shows what changed."""
    table, _, row_id = key.decode().partition("/")
    where = row_id
    source = _SOURCE_OF_TABLE.get(table)
    if source is None:
        if table not in (spec.REJECTS, TOMBSTONES):
            return None
        source, _, where = row_id.partition("/")
    partition, _, offset = where.partition("-")
    return Position(source, int(partition), int(offset))


def marked_offsets(keys: Iterable[bytes]) -> dict[tuple[str, int], list[int]]:
    """The offsets of all input records that these keys are the last trace of, by their place."""
    ends: dict[bytes, list[bytes]] = {}
    for key in keys:
        if not key.startswith(_FINAL_PREFIX):  # as every other one does: a history has millions
            start, _, offset = key.rpartition(b"-")
            ends.setdefault(start, []).append(offset)
    found: dict[tuple[str, int], list[int]] = {}
    for start, offsets in ends.items():
        if at := marked_position(start + b"-0"):
            found.setdefault((at.source, at.partition), []).extend(map(int, offsets))
    return found


def pair_id(user: Position, account: Position) -> str:
    """Identity of a `final_ui` row that shows one users record with one accounts record."""
    return f"{user}+{account}"


class ReferenceFollower:
    """The rule of a follower, spelt out: the newest version wins, and a removal is remembered."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], ChangelogRecord] = {}

    def apply(self, change: ChangelogRecord) -> None:
        """Take in the next record of the changelog."""
        there = self._newest.get((change.table, change.id))
        if there is None or is_newer(change.version, there.version):
            self._newest[change.table, change.id] = change

    def table(self, name: str) -> dict[str, Mapping[str, Any]]:
        """The rows of a table by identity."""
        return {
            change.id: change.row
            for change in self._newest.values()
            if change.table == name and change.row is not None
        }
