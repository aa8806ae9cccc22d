"""What a peek asks for: where to start, what to look for, how many records. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from livejoin.core.control_messages import excerpt
from livejoin.core.start_position import normalize_start
from livejoin.errors import RequestError
from livejoin.kafka.range_reader import ScannedRecord
from livejoin.kafka.records import OffsetRange
from livejoin.tables.http.query import parse_count

MAX_MESSAGES = 100
DEFAULT_MESSAGES = 10
MAX_SEARCH_CHARS = 200

_POSITIONS = ("offset", "time", "older", "newer")
PARAMETERS = ("count", "partition", *_POSITIONS, "search")

_CURSOR = re.compile(r"[0-9]{1,10}:[0-9]{1,19}(,[0-9]{1,10}:[0-9]{1,19})*")
_MAX_INT32 = 2**31 - 1

Cursor = Mapping[int, int]  # offsets by partition


@dataclass(frozen=True)
class PeekRequest:
    """A peek. At most one of `offset`, `time`, `older` and `newer` is given; none: the newest."""

    count: int = DEFAULT_MESSAGES
    partition: int | None = None  # None: all
    offset: int | None = None  # from this one on
    time: str | None = None  # from here on: `earliest`, `latest`, an ISO timestamp, or an age
    older: Cursor | None = None  # below these offsets
    newer: Cursor | None = None  # from these offsets on
    search: str = ""  # in keys and values

    @property
    def reads_older(self) -> bool:
        """Whether it reads towards older records, and returns the newest one first."""
        return self.offset is None and self.newer is None and self.time in (None, "latest")

    @property
    def matches(self) -> Callable[[ScannedRecord], bool]:
        """Whether a record contains the text, in either case."""
        needle = self.search.lower()
        if not needle:
            return lambda _: True

        def contains(record: ScannedRecord) -> bool:
            return any(
                raw is not None and needle in raw.decode(errors="replace").lower()
                for raw in (record.key, record.value)
            )

        return contains


def parse_peek(parameters: Mapping[str, str]) -> PeekRequest:
    """Parse the parameters of a peek; raises RequestError with the reason."""
    given = [name for name in _POSITIONS if name in parameters]
    if len(given) > 1:
        raise RequestError(
            f"{' and '.join(given)} exclude each other", hint="Give one position to read from."
        )
    if "offset" in parameters and "partition" not in parameters:
        raise RequestError(
            "offset: given without partition", hint="Each partition has its offsets."
        )
    search = parameters.get("search", "")
    if len(search) > MAX_SEARCH_CHARS:
        raise RequestError(f"search: longer than {MAX_SEARCH_CHARS} characters")

    def number(name: str, maximum: int) -> int | None:
        text = parameters.get(name)
        return None if text is None else parse_count(name, text, 0, maximum)

    request = PeekRequest(
        parse_count("count", parameters.get("count", str(DEFAULT_MESSAGES)), 1, MAX_MESSAGES),
        number("partition", _MAX_INT32),
        number("offset", 2**63 - 1),
        _parse_time(parameters.get("time")),
        _parse_cursor("older", parameters.get("older")),
        _parse_cursor("newer", parameters.get("newer")),
        search,
    )
    for name in ("older", "newer"):
        cursor: Cursor | None = getattr(request, name)
        if cursor is not None and request.partition not in (None, *cursor):
            raise RequestError(f"{name}: names no offset of partition {request.partition}")
    return request


def _parse_time(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return normalize_start(text)
    except ValueError as error:
        raise RequestError(f"time: {error}, got {excerpt(text)}") from None


def _parse_cursor(name: str, text: str | None) -> Cursor | None:
    if text is None:
        return None
    if not _CURSOR.fullmatch(text):
        raise RequestError(
            f"{name}: expected partitions and offsets such as 0:120,1:88, got {excerpt(text)}"
        )
    return {int(p): int(offset) for p, offset in (part.split(":") for part in text.split(","))}


def format_cursor(cursor: Cursor) -> str:
    """Write offsets by partition as a request takes them."""
    return ",".join(f"{p}:{offset}" for p, offset in sorted(cursor.items()))


def check_partitions(request: PeekRequest, topic: str, known: tuple[int, ...]) -> tuple[int, ...]:
    """The partitions to read; raises RequestError if the topic has not all of them."""
    cursor = request.older if request.newer is None else request.newer
    asked = known if cursor is None else tuple(sorted(cursor))
    if request.partition is not None:
        asked = (request.partition,)
    missing = [p for p in asked if p not in known]
    if missing:
        has = "partition 0 only" if len(known) == 1 else f"partitions 0 to {known[-1]}"
        raise RequestError(f'topic "{topic}" has no partition {missing[0]}, it has {has}')
    return asked


def check_offset(offset: int, partition: int, topic: str, retained: OffsetRange) -> None:
    """Raise RequestError if there is no such offset."""
    if retained.start <= offset < retained.end:
        return
    where = f'partition {partition} of topic "{topic}"'
    if retained.start >= retained.end:
        raise RequestError(f"{where} has no records; its next offset is {retained.end}")
    raise RequestError(
        f"offset {offset} is not in {where}",
        hint=f"There are offsets {retained.start} to {retained.end - 1}.",
    )
