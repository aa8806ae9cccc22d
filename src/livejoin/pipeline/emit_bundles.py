"""Many rows that one event changed, as a few records of the changelog.

A record costs everybody on its way, whatever its size: the sink, the broker, each follower. An
account of a user with 10,000 rows would hold up all who stand behind it.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline.events import ColumnFunction, evaluate_once


def worth_bundling(many: Column, shared: Column) -> Column:
    """Whether there are many, and all is small: what is shared is in each row that is shown."""
    small = F.forall(
        many, lambda one: F.octet_length(one["text"]) <= changelog.BUNDLE_MAX_PART_BYTES
    )
    one_is_small = F.octet_length(shared) <= changelog.BUNDLE_MAX_PART_BYTES
    return (F.size(many) > changelog.BUNDLE_MIN_ROWS) & one_is_small & small


def bundle_records(
    many: Column,
    row_id: ColumnFunction,
    shared: Sequence[Column],
    *,
    growing: bool = False,
    removed: bool = False,
) -> Column:
    """Bundles of rows. What they share is said first and once.

    Where the same rows come again and again, only ever more of them, the newest bundle is all that
    compaction has to keep. Elsewhere it must keep those with other rows as well.
    """

    def bundle(some: Column) -> Column:
        ids = F.concat_ws('","', F.transform(some, row_id))
        own = F.concat_ws(changelog.BUNDLE_NEXT, F.transform(some, _own_cells))
        end = (
            [F.lit("}")]
            if removed
            else [F.lit(changelog.BUNDLE_ROWS), own, F.lit(changelog.BUNDLE_END)]
        )
        value = F.concat(
            *(F.lit("{"), *shared),
            *(F.lit(f'{changelog.BUNDLE_IDS}["'), ids, F.lit('"]')),
            *end,
        )
        which = [] if growing else [F.lit("~"), F.hex(F.xxhash64(ids))]
        key = F.concat(F.lit(f"{changelog.BUNDLE_PREFIX}{spec.FINAL}/"), row_id(some[0]), *which)
        return F.struct(key.alias("key"), value.alias("value"))

    starts = F.sequence(F.lit(1), F.size(many), F.lit(changelog.BUNDLE_MAX_ROWS))
    return F.transform(
        starts,
        lambda at: evaluate_once(F.slice(many, at, changelog.BUNDLE_MAX_ROWS), bundle),
    )


def _own_cells(one: Column) -> Column:
    """The cells that a row has for itself, and their time."""
    return F.concat(F.lit('{"ts":'), one["ts"], one["text"], F.lit("}"))
