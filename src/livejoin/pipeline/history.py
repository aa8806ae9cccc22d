"""Joins by a batch job what the source topics contain when a generation is requested: its history.

The job writes the same changelog records as the stream would, but only the last version of each
row. What the stream needs for its state goes to a bootstrap topic (`<name>.feed.<generation>`),
which the stream reads beside the source topics; those it reads from the end of the history. A
bootstrap record contains one users row and the latest account of its key, or that account alone
where the key has no users row.
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
_RECORD_CELLS = 1 + 2 * _ROW_CELLS  # the number of users rows, a users row, an account

# Columns inside the job, and of a decoded bootstrap record.
_ACCOUNT, _USER_COUNT, _KEY_HASH = "account", "known", "number"
_RECORD, _CELLS = "r", "parts"


def join_history(
    records: DataFrame, partitions: int, changelog: str, bootstrap: str, max_value_bytes: int
) -> DataFrame:
    """Records of all sources as Kafka records for both topics: `topic`, `key` and `value`."""
    # The hash is compared first when sorting, since the texts of all groups begin alike.
    by_key = Window.partitionBy(_KEY_HASH, events.GROUP)
    parsed = parse.parse_records(records, max_value_bytes)
    parsed = parsed.select(*event_columns(records.sparkSession))
    # Either the event or the account is null, so the sort does not carry an account twice.
    account, event = row_of_source(spec.DEFAULT.lookups[0]), F.col(events.EVENT)
    split = parsed.select(
        events.GROUP,
        F.when(account.isNull(), event).alias(events.EVENT),
        account.alias(_ACCOUNT),
    )
    with_latest = (
        split.repartition(partitions, events.GROUP)
        .withColumn(_KEY_HASH, F.hash(events.GROUP))
        .select(
            events.GROUP,
            F.coalesce(
                events.EVENT, event_from_row(spec.DEFAULT.lookups[0], F.col(_ACCOUNT))
            ).alias(events.EVENT),
            latest_row.latest(_ACCOUNT).over(by_key).alias(events.ACCOUNTS),
            # an event with a key that is no account is a users row
            F.count(events.EVENT).over(by_key).alias(_USER_COUNT),
        )
    )
    latest = F.col(events.ACCOUNTS)
    joined = F.when(is_from_source(spec.DEFAULT.driver), joined_with_latest(stored_row(), latest))
    state = F.struct(F.col(events.GROUP).alias("key"), _bootstrap_value().alias("value"))
    written = F.array(
        _to_topic(changelog, joined),
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
    user_count, *row_cells = (record[_CELLS][i] for i in range(_RECORD_CELLS))
    user, account = _decode_row(*row_cells[:_ROW_CELLS]), _decode_row(*row_cells[_ROW_CELLS:])
    # The event's position is that of the account that the job has shown, its text the row count.
    history = _event_struct(join.HISTORY_PREFIX, account, user_count)
    rows = F.struct(user.alias(events.BOOTSTRAP_USER), account.alias(events.BOOTSTRAP_ACCOUNT))
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


def _bootstrap_value() -> Column:
    """The value of an event's bootstrap record; null where other records contain all of it."""
    user_count, latest = F.col(_USER_COUNT), F.col(events.ACCOUNTS)
    event = F.col(events.EVENT)
    is_latest = (latest[latest_row.PARTITION] == event[latest_row.PARTITION]) & (
        latest[latest_row.OFFSET] == event[latest_row.OFFSET]
    )
    no_row = F.lit(_SEPARATOR.join([""] * _ROW_CELLS))
    user = F.when(row_of_source(spec.DEFAULT.driver).isNotNull(), _encode_row(stored_row()))
    account_alone = F.when(
        row_of_source(spec.DEFAULT.lookups[0]).isNotNull() & is_latest & (user_count == 0), no_row
    )
    account = F.when(latest.isNotNull(), _encode_row(latest)).otherwise(no_row)
    separator = F.lit(_SEPARATOR)
    return F.concat(
        user_count.cast("string"),
        separator,
        F.coalesce(user, account_alone),
        separator,
        account,
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
