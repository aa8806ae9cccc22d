"""Bundles: many rows that one input changed, as one record of the changelog.

The layout is fixed, so that a follower can take it apart without reading all of it: what the rows
share, then their identities, then a line for what each has of its own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livejoin.core.changelog import ChangelogRecord, Version, compact_json

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


def read_bundle(key: bytes, value: bytes) -> Bundle:
    """Read one back."""
    fields = json.loads(value)
    version = fields.pop("version", None)
    return Bundle(key.decode().split("/")[1], version=tuple(version) if version else None, **fields)
