"""Rows in the state, and which of two is the latest: by timestamp, then partition, then offset.

The order of the fields is the rule: Spark compares structs field by field. A row's version in the
changelog has the same fields. They are part of the state: changing them changes the query
(`join.VERSION`).
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

TS = "ts"  # the record's Kafka timestamp in ms
PARTITION = "partition"
OFFSET = "offset"
TEXT = "text"  # JSON members that follow the key's

VERSION_FIELDS = (TS, PARTITION, OFFSET)  # in the order in which versions are compared
ROW_FIELDS = (*VERSION_FIELDS, TEXT)
ROW_TYPE = f"struct<{TS}:bigint,{PARTITION}:int,{OFFSET}:bigint,{TEXT}:string>"


def latest(row: Column | str) -> Column:
    """The latest of the rows of a group; rows that are null do not count."""
    return F.max(row)
