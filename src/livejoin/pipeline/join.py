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

from livejoin.core import changelog, changelog_bundles, spec
from livejoin.pipeline import parse
from livejoin.pipeline.emit import many_pairs, many_with_latest, own, with_each, with_latest
from livejoin.pipeline.events import event, is_of, of, row

# Whoever changes what the state holds, or the shape of the query, counts on: a checkpoint made by
# another version is not taken over, its choice is built anew.
VERSION = 5

_RECORDS = "array<struct<key:string,value:string>>"

# Where records of the feed go: what history tells of a key leaves no record of its own.
HISTORY = "history/"
MARK = f"{changelog.FEED}/"


def records(stream: DataFrame, source: spec.Source) -> DataFrame:
    """A Kafka stream as records of one source."""
    ts = F.unix_millis("timestamp").alias("ts")
    name = F.lit(source.name).alias("source")
    return stream.select(name, "topic", "value", "partition", "offset", ts)


def together(streams: Sequence[DataFrame]) -> DataFrame:
    """Records of several sources as one."""
    return functools.reduce(DataFrame.unionByName, streams)


def changes(read: DataFrame, choice: spec.Choice, fed: DataFrame | None = None) -> DataFrame:
    """Records of all sources as changelog records, `key` and `value`.

    What was there before them may come by a feed (see `history`), sooner or later.
    """
    it = _columns(
        read.sparkSession,
        choice.join,
        fed is not None,
        (changelog_bundles.MANY, changelog_bundles.MOST),
    )
    events = parse.parsed(read).select(*event(read.sparkSession))
    if fed is not None:
        nothing = F.lit(None).cast(fed.schema["kept"].dataType)
        events = events.withColumn("kept", nothing).unionByName(fed)
    return events.groupBy("group").agg(*it.state).select(it.records)


class _Columns(NamedTuple):
    state: tuple[Column, ...]
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
    of_user, of_account = of(spec.USERS), of(spec.ACCOUNTS)
    if fed:
        of_user = F.coalesce(of_user, F.col("kept.user"))
        of_account = F.coalesce(of_account, F.col("kept.account"))
    others = F.max(of_account) if join == "left" else F.collect_list(of_account)
    # a new users row changes that row, a new account all rows of its user, anything else none
    touched = F.when(is_of(spec.USERS), F.array(row())).when(is_of(spec.ACCOUNTS), F.col("users"))
    if fed:
        touched = touched.when(_is_history(), _changed_since())
    if join == "left":
        changed = F.transform(touched, lambda user: with_latest(user, F.col("others")))
        changed = F.coalesce(many_with_latest(), changed)
    else:
        new = F.when(is_of(spec.ACCOUNTS), F.array(row())).otherwise(F.col("others"))
        outer = join == "left_outer"
        changed = F.flatten(F.transform(touched, lambda user: with_each(user, new, outer=outer)))
        changed = F.coalesce(many_pairs(outer=outer), changed)
    nothing = F.array().cast(_RECORDS)
    mark = F.when(_is_history(), nothing).otherwise(F.array(own())) if fed else F.array(own())
    everything = F.concat(F.coalesce(changed, nothing), mark)
    return _Columns(
        (F.collect_list(of_user).alias("users"), others.alias("others"), F.last("e").alias("e")),
        F.inline(everything),
    )


def _is_history() -> Column:
    return F.col("e.into") == HISTORY


def _changed_since() -> Column:
    """Which rows of its key are other ones than history alone gives, when a part of that comes.

    History has shown all of its own rows, and says how many they are and with which account. Where
    there are more, what came since did not know that account yet. Where there is a newer one, the
    row that has just come does not show it yet.
    """
    users, others, e = F.col("users"), F.col("others"), F.col("e")
    same = others["partition"].eqNullSafe(e["partition"]) & others["offset"].eqNullSafe(e["offset"])
    more = F.size(users) > e["text"].cast("int")
    return F.when(more, users).when(~same, F.slice(users, -1, 1))
