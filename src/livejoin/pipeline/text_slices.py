"""Slices of texts by bytes. Spark's substring by characters would scan the whole text."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def strip_ends(text: Column) -> Column:
    """A text without its first and last character, both of one byte."""
    return byte_slice(text, 2, 2)


def byte_slice(text: Column, start: int, less: int) -> Column:
    """The text from a byte on (the first is 1), by `less` bytes shorter than all of it."""
    cut = F.substr(text.cast("binary"), F.lit(start), F.octet_length(text) - less)
    return cut.cast("string")
