"""The changelog as docs/changelog.md defines it, record by record: slow, and easy to compare.

What the pipeline writes and what the tables read in bulk are both tested against it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livejoin.core.changelog import (
    BUNDLE_END,
    BUNDLE_IDS,
    BUNDLE_NEXT,
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
