"""Merges records of joined rows part by part, where each lookup has a version of its own.

Of two records of a row, the cells of each lookup are those of the record with the higher version of
that lookup. So the order and repetition of records do not matter (docs/changelog.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from livejoin.core import spec
from livejoin.core.spec import JoinSpec
from livejoin.tables.ingest.batches import VERSION_PARTS, ChangeBatch
from livejoin.tables.ingest.segments import SegmentedRows


@dataclass(frozen=True)
class RowParts:
    """The lookups that have a version each in a joined row, and the columns of each."""

    columns: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, join_spec: JoinSpec) -> Self | None:
        """The parts of the joined rows of a spec; None if one version is enough."""
        lookups = [s for s in join_spec.lookups if s.name in join_spec.versioned_lookups]
        names = join_spec.joined_names
        columns = {
            source.name: frozenset(names[source.name].values()) - {join_spec.key.name}
            for source in lookups
        }
        return cls(columns) if columns else None

    @property
    def version_width(self) -> int:
        """The integers of all versions of a row."""
        return VERSION_PARTS * len(self.columns)

    @property
    def starts(self) -> dict[str, int]:
        """Where the version of each lookup starts among them."""
        return {name: VERSION_PARTS * number for number, name in enumerate(self.columns)}


class MergedBatch(NamedTuple):
    """What a batch changes: rows with distinct IDs, each newer than the stored one in some part."""

    batch: ChangeBatch
    settled: Sequence[str]  # rows whose last record in the changelog is complete
    behind: Sequence[str]  # rows whose last record lacks a part


def merge(
    batch: ChangeBatch, parts: RowParts, stored: Mapping[str, int], rows: SegmentedRows
) -> MergedBatch | None:
    """Merge the records of a batch with each other and with the stored rows.

    `stored` are the positions of rows by ID. None if all rows are new: there is nothing to merge.
    """
    if len(set(batch.ids)) == len(batch.ids) and stored.keys().isdisjoint(batch.ids):
        return None
    encoded = pa.array(batch.ids, pa.string()).dictionary_encode()
    ids: list[str] = encoded.dictionary.to_pylist()
    known = [(group, stored[row_id]) for group, row_id in enumerate(ids) if row_id in stored]
    known_groups, positions = np.array(known, np.int64).reshape(-1, 2).T
    # stored rows first, then records in their order
    groups = np.concatenate([known_groups, encoded.indices.to_numpy()])
    versions = np.concatenate([rows.version[positions], batch.versions])
    times = np.concatenate([rows.ts[positions], batch.times])
    last = _last_of_groups(groups)
    winners = {
        name: _last_of_groups(groups, versions[:, start : start + VERSION_PARTS])
        for start, name in zip(
            range(0, len(versions[0]), VERSION_PARTS), parts.columns, strict=True
        )
    }
    merged = np.hstack(
        [
            versions[winners[name], start : start + VERSION_PARTS]
            for name, start in parts.starts.items()
        ]
    )
    complete = (versions[last] == merged).all(axis=1)
    changed = np.ones(len(ids), bool)
    changed[known_groups] = (merged[known_groups] != rows.version[positions]).any(axis=1)
    chosen = np.flatnonzero(changed)
    if complete[chosen].all():
        kept = _take(batch, last[chosen] - len(positions))
    else:
        cells = _Cells(batch, rows, positions)
        newest = times[_last_of_groups(groups, times[:, None])]
        kept = cells.combine(parts, winners, last, newest, chosen, merged[chosen])
    return MergedBatch(
        kept,
        [ids[group] for group in np.flatnonzero(complete).tolist()],
        [ids[group] for group in np.flatnonzero(~complete).tolist()],
    )


def _last_of_groups(groups: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
    """The index of the last member of each group; with keys, of the last with the highest key."""
    columns = () if keys is None else tuple(keys.T[::-1])
    order = np.lexsort((np.arange(len(groups)), *columns, groups))
    ends = np.flatnonzero(np.diff(groups[order], append=-1))
    last: np.ndarray = order[ends]
    return last


def _take(batch: ChangeBatch, indices: np.ndarray) -> ChangeBatch:
    """Whole records of a batch."""
    if len(indices) == len(batch.ids) and (indices == np.arange(len(indices))).all():
        return batch
    return ChangeBatch(
        [batch.ids[index] for index in indices.tolist()],
        batch.rows.take(pa.array(indices)),
        batch.present[indices],
        batch.versions[indices],
        None if batch.hashes is None else batch.hashes[indices],
    )


class _Cells:
    """The cells of stored rows, followed by those of a batch."""

    def __init__(self, batch: ChangeBatch, rows: SegmentedRows, positions: np.ndarray) -> None:
        order = np.argsort(positions)
        stored = rows.rows_at(positions[order])  # by segment: found again by their IDs
        index_of = {row_id: index for index, row_id in enumerate(stored.column("_id").to_pylist())}
        wanted = [index_of[row_id] for row_id in rows.ids_at(positions).to_pylist()]
        self._rows = pa.concat_tables(
            [stored.take(pa.array(wanted, pa.int64())), pa.Table.from_batches([batch.rows])]
        ).combine_chunks()

    def combine(  # noqa: PLR0913, PLR0917 - what is known of each group
        self,
        parts: RowParts,
        winners: Mapping[str, np.ndarray],
        last: np.ndarray,
        times: np.ndarray,
        chosen: np.ndarray,
        versions: np.ndarray,
    ) -> ChangeBatch:
        """The rows of the chosen groups, each part from its winner, the rest from the last."""
        source = {
            column: winners[name] for name, columns in parts.columns.items() for column in columns
        }
        arrays = []
        for field in self._rows.schema:
            if field.name == spec.TS.name:
                arrays.append(pa.array(times[chosen]).cast(field.type))
            else:
                indices = pa.array(source.get(field.name, last)[chosen])
                arrays.append(self._rows.column(field.name).take(indices).combine_chunks())
        merged = pa.RecordBatch.from_arrays(arrays, schema=self._rows.schema)
        ids: list[str] = merged.column(spec.ID.name).to_pylist()
        return ChangeBatch(ids, merged, np.ones(len(ids), bool), versions)
