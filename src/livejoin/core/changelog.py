"""The changelog format: changed rows, removals, bundles and marks, and which version wins.

The pipeline writes this format with Spark expressions and the tables read it in bulk with Arrow;
both are tested against this module. `docs/changelog.md` describes it for other readers.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from livejoin.core import spec

# A tombstone has no row but must be counted: its record is in an internal table.
TOMBSTONES = "tombstones"

# Table of the marks that records of the bootstrap topic leave; it has no rows.
BOOTSTRAP = "feed"

# Timestamp (ms), partition and offset of the newest input; None is older than any.
Version = tuple[int, int, int] | None

# A bundle holds many rows that one input changed. Its layout is fixed, so that followers can split
# it without parsing all of it: shared cells, then row ids, then one line per row for its own cells.
BUNDLE_PREFIX = "bundle/"  # of the key
# Fewer rows are written one by one: a bundle costs a follower as much as 400 to 600 single rows.
BUNDLE_MIN_ROWS = 500
BUNDLE_MAX_ROWS = 5000  # with 500, a follower takes two and a half times as long
BUNDLE_MAX_PART_BYTES = 1024  # limit for the shared cells, and for the own cells of each row

BUNDLE_IDS = ',\n"ids":'
BUNDLE_ROWS = ',\n"rows":[\n'
BUNDLE_NEXT = ",\n"
BUNDLE_END = "\n]}"

_FINAL_PREFIX = f"{spec.FINAL}/".encode()
_SOURCE_OF_MARK = {**spec.SOURCE_OF_TABLE, BOOTSTRAP: BOOTSTRAP}  # by table


class Position(NamedTuple):
    """Position of an input record."""

    source: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


@dataclass(frozen=True)
class ChangelogRecord:
    """One changelog record. Without a row it is a removal or the mark of a tombstone."""

    table: str
    id: str
    row: Mapping[str, Any] | None
    ts: int
    version: Version = None

    def key(self) -> bytes:
        """The record's Kafka key."""
        return f"{self.table}/{self.id}".encode()

    def value(self) -> bytes:
        """The record's Kafka value, without nulls at any level."""
        fields: dict[str, Any] = {"ts": self.ts}
        if self.row is not None:
            cells = {name: cell for name, cell in self.row.items() if cell is not None}
            fields = {"row": cells, **fields}
        if self.version is not None:
            fields["version"] = list(self.version)
        return compact_json(fields).encode()


@dataclass(frozen=True)
class Bundle:
    """Rows with shared cells in `row` and own cells in `rows`; without both, removals."""

    table: str
    ids: Sequence[str]
    ts: int
    version: Version = None
    row: Mapping[str, Any] | None = None
    rows: Sequence[Mapping[str, Any]] = ()  # each with a `ts`

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
        """One record per row; its `ts` is that of the newer part."""
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
    """JSON without whitespace, as in the changelog."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_record(key: bytes, value: bytes) -> ChangelogRecord:
    """Decode one record."""
    table, _, row_id = key.decode().partition("/")
    fields = json.loads(value)
    version = fields.get("version")
    return ChangelogRecord(
        table, row_id, fields.get("row"), fields["ts"], tuple(version) if version else None
    )


def read_bundle(key: bytes, value: bytes) -> Bundle:
    """Decode one bundle."""
    fields = json.loads(value)
    version = fields.pop("version", None)
    return Bundle(key.decode().split("/")[1], version=tuple(version) if version else None, **fields)


def is_newer(version: Version, than: Version) -> bool:
    """Whether a record replaces the existing one."""
    return version is not None and (than is None or version > than)


def marked_position(key: bytes) -> Position | None:
    """The input record that this key marks as processed; None if it marks none."""
    table, _, row_id = key.decode().partition("/")
    position = row_id
    source = _SOURCE_OF_MARK.get(table)
    if source is None:
        if table not in (spec.REJECTS, TOMBSTONES):
            return None
        source, _, position = row_id.partition("/")
    partition, _, offset = position.partition("-")
    return Position(source, int(partition), int(offset))


def marked_offsets(keys: Iterable[bytes]) -> dict[tuple[str, int], list[int]]:
    """Offsets of the input records that these keys mark, by source and partition."""
    by_prefix: dict[bytes, list[bytes]] = {}
    for key in keys:
        if not key.startswith(_FINAL_PREFIX):  # half of millions of keys: skipped early
            prefix, _, offset = key.rpartition(b"-")
            by_prefix.setdefault(prefix, []).append(offset)
    found: dict[tuple[str, int], list[int]] = {}
    for prefix, offsets in by_prefix.items():
        if at := marked_position(prefix + b"-0"):
            found.setdefault((at.source, at.partition), []).extend(map(int, offsets))
    return found


def pair_id(user: Position, account: Position) -> str:
    """Id of a `final_ui` row that joins one users record with one accounts record."""
    return f"{user}+{account}"


class ReferenceFollower:
    """Reference implementation of a follower: the newest version wins, removals are kept."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], ChangelogRecord] = {}

    def apply(self, change: ChangelogRecord) -> None:
        """Apply the next record of the changelog."""
        current = self._newest.get((change.table, change.id))
        if current is None or is_newer(change.version, current.version):
            self._newest[change.table, change.id] = change

    def table(self, name: str) -> dict[str, Mapping[str, Any]]:
        """The rows of a table by id."""
        return {
            change.id: change.row
            for change in self._newest.values()
            if change.table == name and change.row is not None
        }
