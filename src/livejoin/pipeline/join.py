"""The join as one stateful aggregation: events of all sources in, changelog records out.

In Real-time Mode every event produces its own output, so an event emits only what it changed. Its
own record (row, reject or tombstone) comes last: a follower that has it has everything the event
caused.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.core.own_topics import RecordLimits
from livejoin.pipeline import events, latest_row, parse
from livejoin.pipeline.emit import (
    bundled_pairs,
    bundled_with_latest,
    event_record,
    joined_pairs,
    joined_with_latest,
)
from livejoin.pipeline.events import (
    event_columns,
    is_from_source,
    key_prefix,
    row_of_source,
    stored_row,
)

# Increment on any change of the state's content or of the query's shape. A checkpoint of another
# version is not reused; its generation is rebuilt.
VERSION = 6

# Key prefixes of bootstrap events. A history event writes no record of its own.
HISTORY_PREFIX = "history/"
BOOTSTRAP_MARK_PREFIX = f"{changelog.BOOTSTRAP}/"


def source_records(stream: DataFrame, source: spec.Source) -> DataFrame:
    """The records of one source, from a Kafka stream or batch."""
    ts = F.unix_millis("timestamp").alias(latest_row.TS)
    name = F.lit(source.name).alias("source")
    return stream.select(name, "topic", "value", latest_row.PARTITION, latest_row.OFFSET, ts)


def union_all(streams: Sequence[DataFrame]) -> DataFrame:
    """The records of several sources as one frame."""
    return functools.reduce(DataFrame.unionByName, streams)


def changelog_records(
    records: DataFrame,
    joined: spec.JoinSpec,
    join: spec.Join,
    limits: RecordLimits,
    bootstrap: DataFrame | None = None,
) -> DataFrame:
    """Join the records of all sources: changelog records, `key` and `value`.

    `bootstrap` contains the events of `history.bootstrap_events`. They may arrive before or after
    newer records of the same key.
    """
    columns = _columns(
        records.sparkSession,
        joined,
        join,
        bootstrap is not None,
        (changelog.BUNDLE_MIN_ROWS, limits.bundle_rows),
    )
    parsed = parse.parse_records(records, joined, limits.value_bytes)
    parsed = parsed.select(*event_columns(records.sparkSession, joined))
    if bootstrap is not None:
        no_rows = F.lit(None).cast(bootstrap.schema[events.BOOTSTRAP_ROWS].dataType)
        parsed = parsed.withColumn(events.BOOTSTRAP_ROWS, no_rows).unionByName(bootstrap)
    return parsed.groupBy(events.GROUP).agg(*columns.aggregates).select(columns.records)


class _Columns(NamedTuple):
    aggregates: tuple[Column, ...]
    records: Column


# A session has at most four for each spec: three joins, and one of them with a bootstrap stream.
@functools.lru_cache(maxsize=8)
def _columns(
    _session: SparkSession,
    joined: spec.JoinSpec,
    join: spec.Join,
    with_bootstrap: bool,  # noqa: FBT001 - part of the cache key
    bundle_sizes: tuple[int, int],
) -> _Columns:
    """The aggregation's columns, the same for all topics. Cached for the reason in `parse`."""
    driver, *lookups = map(row_of_source, joined.sources)
    if with_bootstrap:
        rows = events.BOOTSTRAP_ROWS
        driver = F.coalesce(driver, F.col(f"{rows}.{events.BOOTSTRAP_DRIVER}"))
        lookups = [F.coalesce(lookups[0], F.col(f"{rows}.{events.BOOTSTRAP_LOOKUP}"))]
    kept = latest_row.latest if join == "left" else F.collect_list
    # A driver event changes its own row, a lookup event all rows of its key, others none.
    touched = F.when(is_from_source(joined.driver), F.array(stored_row())).when(
        is_from_source(*joined.lookups), F.col(events.DRIVER)
    )
    if with_bootstrap:
        touched = touched.when(_is_history(), _rows_changed_since_history())
    if join == "left":
        latest = {
            lookup.name: F.col(events.lookup_column(i)) for i, lookup in enumerate(joined.lookups)
        }
        changed = F.transform(touched, lambda row: joined_with_latest(row, latest))
        changed = F.coalesce(bundled_with_latest(bundle_sizes[1], latest, joined), changed)
    else:
        new = F.when(is_from_source(*joined.lookups), F.array(stored_row())).otherwise(
            F.col(events.lookup_column(0))
        )
        outer = join == "left_outer"
        changed = F.flatten(F.transform(touched, lambda row: joined_pairs(row, new, outer=outer)))
        changed = F.coalesce(bundled_pairs(bundle_sizes[1], joined, outer=outer), changed)
    no_records = F.array().cast(events.RECORDS_TYPE)
    own = F.array(event_record())
    if with_bootstrap:
        own = F.when(_is_history(), no_records).otherwise(own)
    return _Columns(
        (
            F.collect_list(driver).alias(events.DRIVER),
            *(kept(row).alias(events.lookup_column(i)) for i, row in enumerate(lookups)),
            F.last(events.EVENT).alias(events.EVENT),
        ),
        F.inline(F.concat(F.coalesce(changed, no_records), own)),
    )


def _is_history() -> Column:
    return key_prefix() == HISTORY_PREFIX


def _rows_changed_since_history() -> Column:
    """The driver rows of a group that differ from what the history job wrote for it.

    A history event contains how many rows the job wrote for the key, and the lookup row they show.
    If there are more rows by now, the newer ones were joined without that one. If there is a newer
    lookup row, the row that this event has added does not show it yet.
    """
    rows, event = F.col(events.DRIVER), F.col(events.EVENT)
    lookup = F.col(events.lookup_column(0))
    same_lookup = lookup[latest_row.PARTITION].eqNullSafe(event[latest_row.PARTITION]) & lookup[
        latest_row.OFFSET
    ].eqNullSafe(event[latest_row.OFFSET])
    more_rows = F.size(rows) > event[latest_row.TEXT].cast("int")
    return F.when(more_rows, rows).when(~same_lookup, F.slice(rows, -1, 1))
