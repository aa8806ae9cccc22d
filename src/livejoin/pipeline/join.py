"""The join as one stateful aggregation: events of all sources by key in, changelog records out.

In Real-time Mode every event gives its own output, so an event emits what it changed and nothing
else. Its own record (row, reject or tombstone) comes last: a follower that has it has everything
the event caused.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline import parse
from livejoin.pipeline.emit import (
    bundled_pairs,
    bundled_with_latest,
    event_record,
    joined_pairs,
    joined_with_latest,
)
from livejoin.pipeline.events import event_columns, is_from_source, row_of_source, stored_row

# Whoever changes what the state holds, or the shape of the query, counts on: a checkpoint made by
# another version is not taken over, its choice is built anew.
VERSION = 5

_RECORDS = "array<struct<key:string,value:string>>"

# Where records of the feed go: what history tells of a key leaves no record of its own.
HISTORY_PREFIX = "history/"
BOOTSTRAP_MARK_PREFIX = f"{changelog.BOOTSTRAP}/"


def source_records(stream: DataFrame, source: spec.Source) -> DataFrame:
    """A Kafka stream as records of one source."""
    ts = F.unix_millis("timestamp").alias("ts")
    name = F.lit(source.name).alias("source")
    return stream.select(name, "topic", "value", "partition", "offset", ts)


def union_all(streams: Sequence[DataFrame]) -> DataFrame:
    """Records of several sources as one."""
    return functools.reduce(DataFrame.unionByName, streams)


def changelog_records(
    read: DataFrame, choice: spec.Choice, fed: DataFrame | None = None
) -> DataFrame:
    """Records of all sources as changelog records, `key` and `value`.

    What was there before them may come by a feed (see `history`), sooner or later.
    """
    it = _columns(
        read.sparkSession,
        choice.join,
        fed is not None,
        (changelog.BUNDLE_MIN_ROWS, changelog.BUNDLE_MAX_ROWS),
    )
    events = parse.parse_records(read).select(*event_columns(read.sparkSession))
    if fed is not None:
        nothing = F.lit(None).cast(fed.schema["kept"].dataType)
        events = events.withColumn("kept", nothing).unionByName(fed)
    return events.groupBy("group").agg(*it.aggregates).select(it.records)


class _Columns(NamedTuple):
    aggregates: tuple[Column, ...]
    records: Column


# one session has three joins, one of them also with a feed; a new one comes only after its JVM died
@functools.lru_cache(maxsize=4)
def _columns(
    _session: SparkSession,
    join: spec.Join,
    fed: bool,  # noqa: FBT001 - cached
    _bundled: tuple[int, int],
) -> _Columns:
    """What is the same for all topics, made once, as in `parse`."""
    of_user, of_account = row_of_source(spec.USERS), row_of_source(spec.ACCOUNTS)
    if fed:
        of_user = F.coalesce(of_user, F.col("kept.user"))
        of_account = F.coalesce(of_account, F.col("kept.account"))
    others = F.max(of_account) if join == "left" else F.collect_list(of_account)
    # a new users row changes that row, a new account all rows of its user, anything else none
    touched = F.when(is_from_source(spec.USERS), F.array(stored_row())).when(
        is_from_source(spec.ACCOUNTS), F.col("users")
    )
    if fed:
        touched = touched.when(_is_history(), _rows_changed_since_history())
    if join == "left":
        changed = F.transform(touched, lambda user: joined_with_latest(user, F.col("others")))
        changed = F.coalesce(bundled_with_latest(), changed)
    else:
        new = F.when(is_from_source(spec.ACCOUNTS), F.array(stored_row())).otherwise(
            F.col("others")
        )
        outer = join == "left_outer"
        changed = F.flatten(F.transform(touched, lambda user: joined_pairs(user, new, outer=outer)))
        changed = F.coalesce(bundled_pairs(outer=outer), changed)
    nothing = F.array().cast(_RECORDS)
    mark = (
        F.when(_is_history(), nothing).otherwise(F.array(event_record()))
        if fed
        else F.array(event_record())
    )
    everything = F.concat(F.coalesce(changed, nothing), mark)
    return _Columns(
        (F.collect_list(of_user).alias("users"), others.alias("others"), F.last("e").alias("e")),
        F.inline(everything),
    )


def _is_history() -> Column:
    return F.col("e.into") == HISTORY_PREFIX


def _rows_changed_since_history() -> Column:
    """Which rows of its key are other ones than history alone gives, when a part of that comes.

    History has shown all of its own rows, and says how many they are and with which account. Where
    there are more, what came since did not know that account yet. Where there is a newer one, the
    row that has just come does not show it yet.
    """
    users, others, e = F.col("users"), F.col("others"), F.col("e")
    same = others["partition"].eqNullSafe(e["partition"]) & others["offset"].eqNullSafe(e["offset"])
    more = F.size(users) > e["text"].cast("int")
    return F.when(more, users).when(~same, F.slice(users, -1, 1))
