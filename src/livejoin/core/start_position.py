"""Start positions of sources: `earliest`, `latest`, an ISO timestamp, or an age such as `1h`."""

import re
from datetime import UTC, datetime, timedelta

_AGE = re.compile(r"([0-9]{1,9})\s*(ms|s|m|h|d|w)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
START_EXPECTED = "earliest, latest, a time such as 2026-01-31T12:00:00Z, or an age such as 1h"


def normalize_start(text: str) -> str:
    """The canonical form of a start position; ValueError if it is none."""
    word = text.strip()
    if word.lower() in ("earliest", "latest"):
        return word.lower()
    if not _AGE.fullmatch(word.lower()):
        _parse_time(word)
    return word


def start_time(start: str, now: float) -> float | None:
    """The timestamp to read from; None for `earliest` and `latest`."""
    if start in ("earliest", "latest"):
        return None
    age = age_seconds(start)
    if age is not None:
        return max(0.0, now - age)
    return max(0.0, _parse_time(start))


def age_seconds(text: str) -> float | None:
    """Seconds of an age such as `1h` or `30d`; None if it is not an age."""
    age = _AGE.fullmatch(text.strip().lower())
    return int(age[1]) * _UNITS[age[2]].total_seconds() if age else None


def _parse_time(text: str) -> float:
    try:
        # ASCII only: fromisoformat accepts any character between date and time
        at = datetime.fromisoformat(text.encode("ascii").decode())
        # UTC if there is no zone
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"expected {START_EXPECTED}") from None
