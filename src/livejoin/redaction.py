"""Secrets: known to this process, and taken out of every text before it is shown.

Whoever reads a secret has it remembered, so that no log line, status or error shows it, even
where somebody else's message holds it.
"""

import re
from collections.abc import Iterable

HIDDEN = "(hidden)"
# Spark hides what this matches, in names and in values. Its own choice is the first line; a setting
# of ours replaces it, so it is said again.
REDACTION = (
    "(?i)secret|password|token|access[.]?key"
    "|passphrase|credential|jaas|private[.]?key|ssl[.]key|keystore[.]key|[.]pem|signature"
)
_IN_SPARK = re.compile(REDACTION)
_SHORTEST = 6  # what is shorter is found in innocent texts, and hides nothing from who sees where
_known: set[str] = set()
_pattern = re.compile("(?!)")


def in_spark(name: str, value: str) -> bool:
    """Whether a setting of Spark's may hold a secret."""
    return bool(_IN_SPARK.search(name) or _IN_SPARK.search(value))


def remember(values: Iterable[str]) -> None:
    """Have these never shown."""
    global _pattern  # noqa: PLW0603 - one process, one set of secrets
    _known.update(value for value in values if len(value) >= _SHORTEST)
    longest_first = sorted(_known, key=len, reverse=True)
    _pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def scrubbed(text: str) -> str:
    """A text without any secret."""
    return _pattern.sub(HIDDEN, text)
