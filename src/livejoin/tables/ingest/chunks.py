"""A run of a changelog, decoded: what the follower hands to the tables."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from livejoin.core import changelog, spec
from livejoin.tables.ingest import decode, read_progress
from livejoin.tables.ingest.decode import ChangeBatch
from livejoin.tables.ingest.read_progress import ReadOffsets, SourcePartition

RawRecord = tuple[bytes, bytes]  # key and value of a record

_BUNDLE_PREFIX = changelog.BUNDLE_PREFIX.encode()


@dataclass(frozen=True)
class Chunk:
    """A run of one generation's changelog, decoded, up to but not including `seq`."""

    generation: int
    seq: int
    batches: Sequence[tuple[str, ChangeBatch]]
    read_offsets: Mapping[SourcePartition, ReadOffsets] = field(default_factory=dict)


def decode_chunk(generation: int, seq: int, records: Sequence[RawRecord]) -> Chunk:
    """Records of a changelog up to `seq`, as runs of a table each."""
    runs: list[tuple[str, ChangeBatch]] = []
    all_ids: dict[str, list[str]] = defaultdict(list)
    for bundled, some in groupby(records, _is_bundle):
        if bundled:
            named = [(key.decode().split("/", 2)[1], value) for key, value in some]
            runs += [(t, decode.decode_bundle(t, value)) for t, value in named if t in spec.TABLES]
            continue
        ids: dict[str, list[str]] = defaultdict(list)
        values: dict[str, list[bytes]] = defaultdict(list)
        for key, value in some:
            table, _, row_id = key.decode().partition("/")
            ids[table].append(row_id)
            values[table].append(value)
        for table, mine in ids.items():
            all_ids[table] += mine
        known = [table for table in ids if table in spec.TABLES]
        runs += [
            (table, decode.decode_records(table, ids[table], values[table])) for table in known
        ]
    return Chunk(generation, seq, runs, read_progress.read_offsets(all_ids))


def _is_bundle(record: RawRecord) -> bool:
    return record[0].startswith(_BUNDLE_PREFIX)
