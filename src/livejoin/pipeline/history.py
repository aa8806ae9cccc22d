"""Joins by a batch job what the source topics contain when a generation is requested: its history.

The job writes the same changelog records as the stream would, but only the last version of each
row. What the stream needs for its state goes to a bootstrap topic (`<name>.feed.<generation>`),
which the stream reads beside the source topics; those it reads from the end of the history. A
bootstrap record contains one driver row and the latest lookup row of its key, or that one alone
where the key has no driver row.
"""

import functools
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from livejoin.core import spec
from livejoin.pipeline import events, join, latest_row, parse
from livejoin.pipeline.emit import event_record, joined_with_latest
from livejoin.pipeline.events import (
    event_columns,
    event_from_row,
    is_from_source,
    row_of_source,
    stored_row,
)

# Of the other joins every pair is a row of its own: a batch job would write as many as the stream.
BATCH_JOINS: frozenset[spec.Join] = frozenset({"left"})
MARK_INTERVAL = 1000  # bootstrap records between two marks, which show the progress

_SEPARATOR = "\x01"  # JSON text cannot contain it
_ROW_CELLS = len(latest_row.ROW_FIELDS)
_RECORD_CELLS = 1 + 2 * _ROW_CELLS  # the number of driver rows, a driver row, a lookup row

# Columns inside the job, and of a decoded bootstrap record.
_LOOKUP, _ROW_COUNT, _KEY_HASH = "lookup", "known", "number"
_RECORD, _CELLS = "r", "parts"


def covers(joined: spec.JoinSpec, join: spec.Join) -> bool:
    """Whether the job can join the history of such a generation."""
    return join in BATCH_JOINS and len(joined.lookups) == 1


def join_history(  # noqa: PLR0913, PLR0917 - what it reads and where it writes
    records: DataFrame,
    joined: spec.JoinSpec,
    partitions: int,
    changelog: str,
    bootstrap: str,
    max_value_bytes: int,
) -> DataFrame:
    """Records of both sources as Kafka records for both topics: `topic`, `key` and `value`."""
    driver, lookup = joined.sources
    # The hash is compared first when sorting, since the texts of all groups begin alike.
    by_key = Window.partitionBy(_KEY_HASH, events.GROUP)
    parsed = parse.parse_records(records, joined, max_value_bytes)
    parsed = parsed.select(*event_columns(records.sparkSession, joined))
    # Either the event or the lookup row is null, so the sort does not carry one twice.
    lookup_row, event = row_of_source(lookup), F.col(events.EVENT)
    split = parsed.select(
        events.GROUP,
        F.when(lookup_row.isNull(), event).alias(events.EVENT),
        lookup_row.alias(_LOOKUP),
    )
    latest = events.lookup_column(0)
    with_latest = (
        split.repartition(partitions, events.GROUP)
        .withColumn(_KEY_HASH, F.hash(events.GROUP))
        .select(
            events.GROUP,
            F.coalesce(events.EVENT, event_from_row(lookup, F.col(_LOOKUP))).alias(events.EVENT),
            latest_row.latest(_LOOKUP).over(by_key).alias(latest),
            # an event with a key that is no lookup row is a driver row
            F.count(events.EVENT).over(by_key).alias(_ROW_COUNT),
        )
    )
    changed = joined_with_latest(stored_row(), {lookup.name: F.col(latest)})
    changed = F.when(is_from_source(driver), changed)
    state = F.struct(F.col(events.GROUP).alias("key"), _bootstrap_value(joined).alias("value"))
    written = F.array(
        _to_topic(changelog, changed),
        _to_topic(changelog, event_record()),
        _to_topic(bootstrap, F.when(state["value"].isNotNull(), state)),
    )
    # not F.filter: it has no code generation, and neither has then what it filters
    return with_latest.select(F.inline(written)).where("topic IS NOT NULL")


def bootstrap_events(stream: DataFrame) -> DataFrame:
    """The stream of a bootstrap topic as events for the join, with the rows that they add.

    A record without a value adds no rows and only leaves a mark. Such records end the topic.
    """
    columns = _bootstrap_columns(stream.sparkSession)
    cells, offset = F.col(f"{_RECORD}.{_CELLS}"), F.col(f"{_RECORD}.{latest_row.OFFSET}")
    is_marked = cells.isNull() | (offset % MARK_INTERVAL == 0)
    both = F.array(F.when(cells.isNotNull(), columns.history), F.when(is_marked, columns.mark))
    decoded = stream.select(columns.record).select(F.inline(both))
    return decoded.where(f"{events.GROUP} IS NOT NULL")


class _BootstrapColumns(NamedTuple):
    record: Column
    history: Column
    mark: Column


@functools.lru_cache(maxsize=1)
def _bootstrap_columns(_session: SparkSession) -> _BootstrapColumns:
    """A decoded bootstrap record and its two possible events. Cached for the reason in `parse`."""
    cells = F.split(F.col("value").cast("string"), _SEPARATOR)
    position = (
        latest_row.PARTITION,
        latest_row.OFFSET,
        F.unix_millis("timestamp").alias(latest_row.TS),
    )
    key = F.col("key").cast("string").alias(events.GROUP)
    decoded = F.struct(key, *position, cells.alias(_CELLS))
    record = F.col(_RECORD)
    row_count, *row_cells = (record[_CELLS][i] for i in range(_RECORD_CELLS))
    driver, lookup = _decode_row(*row_cells[:_ROW_CELLS]), _decode_row(*row_cells[_ROW_CELLS:])
    # The event's position is that of the lookup row that the job has shown, its text the row count.
    history = _event_struct(join.HISTORY_PREFIX, lookup, row_count)
    rows = F.struct(driver.alias(events.BOOTSTRAP_DRIVER), lookup.alias(events.BOOTSTRAP_LOOKUP))
    null = F.lit(None)
    return _BootstrapColumns(
        decoded.alias(_RECORD),
        F.struct(
            record[events.GROUP].alias(events.GROUP),
            history.alias(events.EVENT),
            rows.alias(events.BOOTSTRAP_ROWS),
        ),
        F.struct(
            record[events.GROUP].alias(events.GROUP),
            _event_struct(join.BOOTSTRAP_MARK_PREFIX, record, null.cast("string")).alias(
                events.EVENT
            ),
            null.cast(events.BOOTSTRAP_TYPE).alias(events.BOOTSTRAP_ROWS),
        ),
    )


def _event_struct(prefix: str, at: Column, text: Column) -> Column:
    position = (at[name].alias(name) for name in latest_row.VERSION_FIELDS)
    return F.struct(F.lit(prefix).alias(events.KEY_PREFIX), *position, text.alias(latest_row.TEXT))


def _bootstrap_value(joined: spec.JoinSpec) -> Column:
    """The value of an event's bootstrap record; null where other records contain all of it."""
    driver, lookup = joined.sources
    row_count, latest = F.col(_ROW_COUNT), F.col(events.lookup_column(0))
    event = F.col(events.EVENT)
    is_latest = (latest[latest_row.PARTITION] == event[latest_row.PARTITION]) & (
        latest[latest_row.OFFSET] == event[latest_row.OFFSET]
    )
    no_row = F.lit(_SEPARATOR.join([""] * _ROW_CELLS))
    driver_row = F.when(row_of_source(driver).isNotNull(), _encode_row(stored_row()))
    lookup_alone = F.when(row_of_source(lookup).isNotNull() & is_latest & (row_count == 0), no_row)
    lookup_row = F.when(latest.isNotNull(), _encode_row(latest)).otherwise(no_row)
    separator = F.lit(_SEPARATOR)
    return F.concat(
        row_count.cast("string"),
        separator,
        F.coalesce(driver_row, lookup_alone),
        separator,
        lookup_row,
    )


def _encode_row(row: Column) -> Column:
    return F.concat_ws(_SEPARATOR, *(row[name] for name in latest_row.ROW_FIELDS))


def _decode_row(ts: Column, partition: Column, offset: Column, text: Column) -> Column:
    """A row as `_encode_row` wrote it; null where there was none."""
    row = F.struct(
        ts.cast("bigint").alias(latest_row.TS),
        partition.cast("int").alias(latest_row.PARTITION),
        offset.cast("bigint").alias(latest_row.OFFSET),
        text.alias(latest_row.TEXT),
    )
    return F.when(ts != "", row)


def _to_topic(topic: str, record: Column) -> Column:
    """A record with its topic; null where there is no record."""
    named = F.struct(
        F.lit(topic).alias("topic"), record["key"].alias("key"), record["value"].alias("value")
    )
    return F.when(record.isNotNull(), named)
