"""What a query died of, as one of our errors in one line."""

import re

from livejoin.errors import GenerationUnrecoverable, LivejoinError, QueryFailed, first_line

# which task was lost, in which stage, and the package of the error: nothing for people
_TASK_PREFIX = re.compile(r"^.*\(TID \d+\) \([^)]*\): |^(?:[a-z0-9]+\.)+(?=[A-Z]\w+: )")
# besides the checkpoint's own path: what an error says that comes from reading one
_CHECKPOINT_SIGNS = (
    "STATE_STORE",
    "STATE_DIRECTORY",
    "StateSchemaCompatibilityChecker",
    "HDFSMetadataLog",
)


def from_spark_error(error: Exception, checkpoint: str, trace: str = "") -> LivejoinError:
    """Spark's error as one of ours: whether its checkpoint is to blame."""
    said = f"{error}{trace}"
    if any(sign in said for sign in (checkpoint, *_CHECKPOINT_SIGNS)):
        return GenerationUnrecoverable(f"its checkpoint cannot be used: {short_cause(error)}")
    return QueryFailed(short_cause(error))


def short_cause(error: Exception) -> str:
    """What a query died of, in one line."""
    return _TASK_PREFIX.sub("", _TASK_PREFIX.sub("", first_line(error)))
