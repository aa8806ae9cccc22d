"""Secrets known to this process, and their redaction from log lines, status and errors.

Code that reads a secret registers it here, so that it is redacted even in messages of libraries.
"""

import re
from collections.abc import Iterable

HIDDEN = "(hidden)"
# Value of spark.redaction.regex, matched against names and values. The first line is Spark's
# default, which the setting replaces.
SPARK_REDACTION_PATTERN = (
    "(?i)secret|password|token|access[.]?key"
    "|passphrase|credential|jaas|private[.]?key|ssl[.]key|keystore[.]key|[.]pem|signature"
)
_SPARK_REDACTION = re.compile(SPARK_REDACTION_PATTERN)
_MIN_CHARS = 6  # shorter ones occur in ordinary text, where redaction would reveal them
_secrets: set[str] = set()
_pattern = re.compile("(?!)")


def is_spark_secret(name: str, value: str) -> bool:
    """Whether a Spark property may hold a secret."""
    return bool(_SPARK_REDACTION.search(name) or _SPARK_REDACTION.search(value))


def add_secrets(values: Iterable[str]) -> None:
    """Register secrets, which are redacted from now on."""
    global _pattern  # noqa: PLW0603 - one set of secrets per process
    _secrets.update(value for value in values if len(value) >= _MIN_CHARS)
    longest_first = sorted(_secrets, key=len, reverse=True)
    _pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def redact(text: str) -> str:
    """Return a text with all known secrets replaced."""
    return _pattern.sub(HIDDEN, text)
