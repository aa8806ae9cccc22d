"""Bundles: many rows that one input changed, as one record of the changelog.

The layout is fixed, so that a follower can take it apart without reading all of it: what the rows
share, then their identities, then a line for what each has of its own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livejoin.core.changelog import Change, Version, as_json

PREFIX = "bundle/"  # of a key
MANY = 500  # rows that come one by one: a bundle takes a follower as long as 400 to 600 of a run
MOST = 5000  # rows of a bundle: of 500, a follower takes two and a half times as long
SMALL_BYTES = 1024  # of what rows share, and of what each has of its own, at most

IDS = ',\n"ids":'
ROWS = ',\n"rows":[\n'
NEXT = ",\n"
END = "\n]}"


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
        head = as_json({name: one for name, one in shared.items() if one is not None})[:-1]
        text = f"{head}{IDS}{as_json(self.ids)}"
        own = "" if self.row is None else f"{ROWS}{NEXT.join(map(as_json, self.rows))}{END[:-1]}"
        return f"{text}{own}}}".encode()

    def changes(self) -> list[Change]:
        """What it says, row by row. A row is as old as the newer of its parts."""
        if self.row is None:
            return [Change(self.table, row_id, None, self.ts, self.version) for row_id in self.ids]
        return [
            Change(
                self.table,
                row_id,
                {**self.row, **{name: cell for name, cell in own.items() if name != "ts"}},
                max(self.ts, own["ts"]),
                self.version,
            )
            for row_id, own in zip(self.ids, self.rows, strict=True)
        ]


def read(key: bytes, value: bytes) -> Bundle:
    """Read one back."""
    fields = json.loads(value)
    version = fields.pop("version", None)
    return Bundle(key.decode().split("/")[1], version=tuple(version) if version else None, **fields)
