"""The changelog format: changed rows, removals, bundles and marks, and which version wins.

The pipeline writes this format with Spark expressions and the tables read it in bulk with Arrow;
both are tested against this module and a reader that is part of the tests. `docs/changelog.md`
describes it for other readers.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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

# The first record of a topic of format 2 has this key; its value is the number and the spec.
FORMAT_KEY = "format"

_FINAL_PREFIX = f"{spec.FINAL}/".encode()


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
    # of a spec with several lookups: by lookup, without those that the row has no record of
    versions: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

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
        if self.versions:
            fields["versions"] = {name: list(version) for name, version in self.versions.items()}
        return compact_json(fields).encode()


def format_number(joined: spec.JoinSpec) -> int:
    """The format in which a generation of this spec is written."""
    return 2 if len(joined.lookups) > 1 else 1


def format_record(joined: spec.JoinSpec, join: spec.Join) -> tuple[bytes, bytes]:
    """Key and value of the record with which a topic of format 2 begins."""
    columns = {
        source.name: [joined.joined_names[source.name][c.name] for c in source.fields]
        for source in joined.sources
    }
    number = format_number(joined)
    value = {"format": number, "join": join, **joined.to_json(), "columns": columns}
    return FORMAT_KEY.encode(), compact_json(value).encode()


def compact_json(value: Any) -> str:
    """JSON without whitespace, as in the changelog."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def marked_position(key: bytes) -> Position | None:
    """The input record that this key marks as processed; None if it marks none."""
    table, _, row_id = key.decode().partition("/")
    position = row_id
    if table in (spec.REJECTS, TOMBSTONES):
        source, _, position = row_id.partition("/")
    elif table == BOOTSTRAP or (table.endswith(spec.SOURCE_TABLE_SUFFIX) and table != spec.FINAL):
        source = table.removesuffix(spec.SOURCE_TABLE_SUFFIX)
    else:
        return None
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
