"""Secrets: known to this process, and taken out of every text before it is shown.

Whoever reads a secret has it remembered, so that no log line, status or error shows it, even
where somebody else's message holds it.
"""

import re
from collections.abc import Iterable

HIDDEN = "(hidden)"
# Spark hides what this matches, in names and in values. Its own choice is the first line; a setting
# of ours replaces it, so it is said again.
SPARK_REDACTION_PATTERN = (
    "(?i)secret|password|token|access[.]?key"
    "|passphrase|credential|jaas|private[.]?key|ssl[.]key|keystore[.]key|[.]pem|signature"
)
_SPARK_REDACTION = re.compile(SPARK_REDACTION_PATTERN)
_MIN_CHARS = 6  # what is shorter is found in innocent texts, and hides nothing from who sees where
_secrets: set[str] = set()
_pattern = re.compile("(?!)")


def is_spark_secret(name: str, value: str) -> bool:
    """Whether a setting of Spark's may hold a secret."""
    return bool(_SPARK_REDACTION.search(name) or _SPARK_REDACTION.search(value))


def add_secrets(values: Iterable[str]) -> None:
    """Have these never shown."""
    global _pattern  # noqa: PLW0603 - one process, one set of secrets
    _secrets.update(value for value in values if len(value) >= _MIN_CHARS)
    longest_first = sorted(_secrets, key=len, reverse=True)
    _pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def redact(text: str) -> str:
    """A text without any secret."""
    return _pattern.sub(HIDDEN, text)
