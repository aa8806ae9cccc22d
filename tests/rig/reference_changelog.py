"""The changelog as docs/changelog.md defines it, record by record: slow, and easy to compare.

What the pipeline writes and what the tables read in bulk are both tested against it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livejoin.core.changelog import (
    BUNDLE_END,
    BUNDLE_IDS,
    BUNDLE_NEXT,
    BUNDLE_PREFIX,
    BUNDLE_ROWS,
    ChangelogRecord,
    Position,
    Version,
    compact_json,
)


@dataclass(frozen=True)
class Bundle:
    """Rows with shared cells in `row` and own cells in `rows`; without both, removals."""

    table: str
    ids: Sequence[str]
    ts: int
    version: Version = None
    row: Mapping[str, Any] | None = None
    rows: Sequence[Mapping[str, Any]] = ()  # each with a `ts`
    versions: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    def value(self) -> bytes:
        """The record's Kafka value."""
        shared = {"row": self.row, "ts": self.ts, "version": self.version}
        if self.versions:
            shared["versions"] = self.versions
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
                self.versions,
            )
            for row_id, own in zip(self.ids, self.rows, strict=True)
        ]


def read_record(key: bytes, value: bytes) -> ChangelogRecord:
    """Decode one record."""
    table, _, row_id = key.decode().partition("/")
    fields = json.loads(value)
    version = fields.get("version")
    return ChangelogRecord(
        table,
        row_id,
        fields.get("row"),
        fields["ts"],
        tuple(version) if version else None,
        _versions(fields.get("versions", {})),
    )


def read_bundle(key: bytes, value: bytes) -> Bundle:
    """Decode one bundle."""
    fields = json.loads(value)
    version, versions = fields.pop("version", None), fields.pop("versions", {})
    return Bundle(
        key.decode().split("/")[1],
        version=tuple(version) if version else None,
        versions=_versions(versions),
        **fields,
    )


def _versions(by_lookup: Mapping[str, list[int]]) -> dict[str, tuple[int, int, int]]:
    return {name: (ts, partition, at) for name, (ts, partition, at) in by_lookup.items()}


def read_records(key: bytes, value: bytes) -> list[ChangelogRecord]:
    """Decode one record, or all rows of a bundle."""
    if key.startswith(BUNDLE_PREFIX.encode()):
        return read_bundle(key, value).records()
    return [read_record(key, value)]


def is_newer(version: Version, than: Version) -> bool:
    """Whether a record replaces the existing one."""
    return version is not None and (than is None or version > than)


def pair_id(user: Position, account: Position) -> str:
    """Id of a `final_ui` row that joins one users record with one accounts record."""
    return f"{user}+{account}"


def merge(
    one: ChangelogRecord, other: ChangelogRecord, columns: Mapping[str, Sequence[str]]
) -> ChangelogRecord:
    """Merge two records of a row with several lookups; `columns` are those of each lookup."""
    assert one.row is not None
    assert other.row is not None
    row, versions = dict(one.row), dict(one.versions)
    for lookup, version in other.versions.items():
        if is_newer(version, versions.get(lookup)):
            versions[lookup] = version
            for name in columns[lookup]:
                row.pop(name, None)
                if name in other.row:
                    row[name] = other.row[name]
    newest = max(one.ts, other.ts)
    return ChangelogRecord(one.table, one.id, row, newest, versions=versions)


class ReferenceFollower:
    """Reference implementation of a follower: the newest version wins, removals are kept.

    With `columns`, those of each lookup, every lookup's cells are merged on their own.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]] | None = None) -> None:
        self._newest: dict[tuple[str, str], ChangelogRecord] = {}
        self._columns = columns

    def apply(self, change: ChangelogRecord) -> None:
        """Apply the next record of the changelog."""
        current = self._newest.get((change.table, change.id))
        if self._columns is not None and current is not None and change.versions:
            self._newest[change.table, change.id] = merge(current, change, self._columns)
            return
        if current is None or is_newer(change.version, current.version):
            self._newest[change.table, change.id] = change

    def times(self, name: str) -> dict[str, int]:
        """The times of a table's rows by id."""
        changes = (c for c in self._newest.values() if c.table == name and c.row is not None)
        return {change.id: change.ts for change in changes}

    def table(self, name: str) -> dict[str, Mapping[str, Any]]:
        """The rows of a table by id."""
        return {
            change.id: change.row
            for change in self._newest.values()
            if change.table == name and change.row is not None
        }
