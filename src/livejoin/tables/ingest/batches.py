"""Decoded changelog records: batches of one table, and chunks of one changelog."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from livejoin.core import spec
from livejoin.tables.ingest.read_progress import ReadOffsets, SourcePartition

VERSION_PARTS = 3  # timestamp, partition and offset of the record that a version names


@dataclass(frozen=True)
class ChangeBatch:
    """Consecutive changelog records of one table, as columns."""

    ids: list[str]
    rows: pa.RecordBatch  # nulls where the record is a removal
    present: np.ndarray  # false for a removal
    versions: np.ndarray  # three int64 for each lookup; the minimum if the record has none
    hashes: np.ndarray | None = None  # computed only for many rows

    @functools.cached_property
    def times(self) -> np.ndarray:
        """`_ts` in ms; for a removal, the time of the record that caused it."""
        times: np.ndarray = self.rows.column(spec.TS.name).cast(pa.int64()).to_numpy()
        return times

    @staticmethod
    def from_rows(ids: list[str], rows: pa.RecordBatch, version: int) -> "ChangeBatch":
        """A batch of rows that are not from a changelog, all with one version."""
        versions = np.full((len(ids), VERSION_PARTS), version)
        return ChangeBatch(ids, rows, np.ones(len(ids), bool), versions)


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one generation's changelog, decoded, up to before offset `seq`."""

    generation: int
    seq: int
    batches: Sequence[tuple[str, ChangeBatch]]
    read_offsets: Mapping[SourcePartition, ReadOffsets] = field(default_factory=dict)
