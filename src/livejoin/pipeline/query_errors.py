"""Translates Spark's errors into livejoin's, with a message of one line."""

import re

from livejoin.errors import GenerationUnrecoverable, LivejoinError, QueryFailed, first_line

# the lost task and its stage, and the package of the exception class
_TASK_PREFIX = re.compile(r"^.*\(TID \d+\) \([^)]*\): |^(?:[a-z0-9]+\.)+(?=[A-Z]\w+: )")
# an error from reading a checkpoint contains one of these, or the checkpoint's path
_CHECKPOINT_SIGNS = (
    "STATE_STORE",
    "STATE_DIRECTORY",
    "StateSchemaCompatibilityChecker",
    "HDFSMetadataLog",
)


def from_spark_error(error: Exception, checkpoint: str, trace: str = "") -> LivejoinError:
    """A query's error: unrecoverable if its checkpoint cannot be read, else retriable."""
    text = f"{error}{trace}"
    if any(sign in text for sign in (checkpoint, *_CHECKPOINT_SIGNS)):
        return GenerationUnrecoverable(f"its checkpoint cannot be used: {short_cause(error)}")
    return QueryFailed(short_cause(error))


def short_cause(error: Exception) -> str:
    """The error's cause in one line, without task and package."""
    return _TASK_PREFIX.sub("", _TASK_PREFIX.sub("", first_line(error)))
