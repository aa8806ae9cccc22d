"""What stands in the topics when a generation is asked for, joined by a batch job.

The job writes the same changelog records as the stream would, a fraction of them: of all rows that
a key went through, only the last. What the stream has to know of a key goes into a feed that it
reads beside the topics, which it then begins behind the history. A record of the feed is one users
row with the latest account of its key, or that account alone where there is no users row.
"""

import functools
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from livejoin.core import spec
from livejoin.kafka.cluster import MAX_RECORD_BYTES
from livejoin.pipeline import join, parse
from livejoin.pipeline.emit import event_record, joined_with_latest
from livejoin.pipeline.events import (
    event_columns,
    event_from_row,
    is_from_source,
    row_of_source,
    stored_row,
)

BATCH_JOINS: frozenset[spec.Join] = frozenset(
    {"left"}
)  # pairs are as many as the stream would write
BOOTSTRAP_TOPIC_CONFIG = {  # its topic: read by one generation, and deleted with it
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "max.message.bytes": str(MAX_RECORD_BYTES),
}
MARK_INTERVAL = 1000  # records of a feed, to show how far it is

_SEPARATOR = "\x01"  # stands in no JSON text
_ROW_TYPE = "struct<ts:bigint,partition:int,offset:bigint,text:string>"


def join_history(read: DataFrame, partitions: int, changelog: str, feed: str) -> DataFrame:
    """Records of all sources as Kafka records: `topic`, `key` and `value`."""
    # sorted by a number first: the texts of all groups begin alike
    of_key = Window.partitionBy("number", "group")
    events = parse.parse_records(read).select(*event_columns(read.sparkSession))
    # an account stands in a column of its own: beside a copy of it, the sort would carry it twice
    account, e = row_of_source(spec.ACCOUNTS), F.col("e")
    apart = events.select("group", F.when(account.isNull(), e).alias("e"), account.alias("account"))
    known = (
        apart.repartition(partitions, "group")
        .withColumn("number", F.hash("group"))
        # what has a key and is no account is a users row
        .select(
            "group",
            F.coalesce("e", event_from_row(spec.ACCOUNTS, F.col("account"))).alias("e"),
            F.max("account").over(of_key).alias("others"),
            F.count("e").over(of_key).alias("known"),
        )
    )
    latest = F.col("others")
    joined = F.when(is_from_source(spec.USERS), joined_with_latest(stored_row(), latest))
    fed = F.struct(F.col("group").alias("key"), _bootstrap_value().alias("value"))
    written = F.array(
        _to_topic(changelog, joined),
        _to_topic(changelog, event_record()),
        _to_topic(feed, F.when(fed["value"].isNotNull(), fed)),
    )
    # not F.filter, which has no code generation, nor then what it filters
    return known.select(F.inline(written)).where("topic IS NOT NULL")


def bootstrap_events(feed: DataFrame) -> DataFrame:
    """A stream of the feed as events for the join: `group`, `e`, and what is `kept` of it.

    A record without a value tells nothing of its key and only leaves a mark: it stands at the end.
    """
    it = _bootstrap_columns(feed.sparkSession)
    marked = F.col("r.parts").isNull() | (F.col("r.offset") % MARK_INTERVAL == 0)
    both = F.array(F.when(F.col("r.parts").isNotNull(), it.history), F.when(marked, it.mark))
    return feed.select(it.record).select(F.inline(both)).where("group IS NOT NULL")


class _BootstrapColumns(NamedTuple):
    record: Column
    history: Column
    mark: Column


@functools.lru_cache(maxsize=1)
def _bootstrap_columns(_session: SparkSession) -> _BootstrapColumns:
    """A record of the feed, and the events that it gives; made once, as in `join`."""
    parts = F.split(F.col("value").cast("string"), _SEPARATOR)
    at = "partition", "offset", F.unix_millis("timestamp").alias("ts")
    read = F.struct(F.col("key").cast("string").alias("group"), *at, parts.alias("parts"))
    r = F.col("r")
    known, *cells = (r["parts"][i] for i in range(9))
    user, account = _decode_row(*cells[:4]), _decode_row(*cells[4:])
    # an event's place is that of the account which history has shown, and its text says how often
    history = _event_struct(join.HISTORY_PREFIX, account, known)
    kept = F.struct(user.alias("user"), account.alias("account"))
    nothing = F.lit(None)
    return _BootstrapColumns(
        read.alias("r"),
        F.struct(r["group"].alias("group"), history.alias("e"), kept.alias("kept")),
        F.struct(
            r["group"].alias("group"),
            _event_struct(join.BOOTSTRAP_MARK_PREFIX, r, nothing.cast("string")).alias("e"),
            nothing.cast(f"struct<user:{_ROW_TYPE},account:{_ROW_TYPE}>").alias("kept"),
        ),
    )


def _event_struct(into: str, at: Column, text: Column) -> Column:
    place = (at[name].alias(name) for name in ("ts", "partition", "offset"))
    return F.struct(F.lit(into).alias("into"), *place, text.alias("text"))


def _bootstrap_value() -> Column:
    """What the stream has to know of an event, as text; null where others tell it all."""
    known, latest, e = F.col("known"), F.col("others"), F.col("e")
    is_latest = (latest["partition"] == e["partition"]) & (latest["offset"] == e["offset"])
    nobody = F.lit(_SEPARATOR.join([""] * 4))
    user = F.when(row_of_source(spec.USERS).isNotNull(), _encode_row(stored_row()))
    alone = F.when(row_of_source(spec.ACCOUNTS).isNotNull() & is_latest & (known == 0), nobody)
    account = F.when(latest.isNotNull(), _encode_row(latest)).otherwise(nobody)
    between = F.lit(_SEPARATOR)
    return F.concat(known.cast("string"), between, F.coalesce(user, alone), between, account)


def _encode_row(row: Column) -> Column:
    return F.concat_ws(_SEPARATOR, *(row[name] for name in ("ts", "partition", "offset", "text")))


def _decode_row(ts: Column, partition: Column, offset: Column, text: Column) -> Column:
    """A row as it was written by `_text`; null where there was none."""
    row = F.struct(
        ts.cast("bigint").alias("ts"),
        partition.cast("int").alias("partition"),
        offset.cast("bigint").alias("offset"),
        text.alias("text"),
    )
    return F.when(ts != "", row)


def _to_topic(topic: str, record: Column) -> Column:
    """A record with its topic; null where there is none."""
    named = F.struct(
        F.lit(topic).alias("topic"), record["key"].alias("key"), record["value"].alias("value")
    )
    return F.when(record.isNotNull(), named)
