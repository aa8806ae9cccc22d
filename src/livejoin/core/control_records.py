"""Records of the control topic, and the history of a topic merged into one request."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from livejoin.core import control_messages
from livejoin.core.control_messages import MAX_WARNINGS, InvalidMessage, Request
from livejoin.core.facts import HistoryReplayed
from livejoin.core.generation import Offsets, Origin
from livejoin.core.state import IDS_KEPT, Reply

CLIENT_HEADER = "livejoin-client"  # of an HTTP request: which client sent it
BY_HEADER = "livejoin-by"  # of a record: who sent the request; other producers omit it
SIGNATURE_HEADER = "livejoin-signature"  # of a record: proves that livejoin wrote it
RAW_CHARS = 1024  # of a message, for display
_BY_CHARS = 100
HISTORY_KEPT = 10_000  # rows of `control_raw`


@dataclass(frozen=True)
class ControlRecord:
    """A parsed record: its origin, and its request or why it is invalid."""

    origin: Origin
    request: Request | None
    error: str = ""


def parse_record(  # noqa: PLR0913, PLR0917 - the parts of a record
    partition: int,
    offset: int,
    at: float,
    by: str,
    raw: bytes,
    rules: control_messages.MessageRules,
) -> ControlRecord:
    """Parse a record. Never raises: an invalid record carries its error."""
    origin = Origin(offset, at, by, _decode_text(raw), partition=partition)
    try:
        request = control_messages.parse_message(raw, rules)
    except InvalidMessage as error:
        return ControlRecord(replace(origin, id=control_messages.message_id(raw)), None, str(error))
    origin = replace(
        origin,
        id=request.id,
        topics=request.topics,
        join=request.join,
        warnings=_bounded(request.warnings),
    )
    return ControlRecord(origin, request)


def _bounded(warnings: tuple[str, ...]) -> tuple[str, ...]:
    """The first warnings, and how many there are besides: the origin is kept in the ledger."""
    more = len(warnings) - MAX_WARNINGS
    counted = (f"{more} more unknown field{'s' if more > 1 else ''}",) if more > 0 else ()
    return (*warnings[:MAX_WARNINGS], *counted)


def _decode_text(raw: bytes) -> str:
    # a character has at most four bytes
    text = raw[: 4 * RAW_CHARS].decode(errors="backslashreplace")
    return text if len(text) <= RAW_CHARS else text[:RAW_CHARS] + "…"


def sender_name(claimed: bytes, *, verified: bool) -> str:
    """Name of the sender for display: verified if signed, otherwise marked as a claim."""
    name = claimed.decode(errors="backslashreplace")[:_BY_CHARS]
    if verified:
        return name
    return f"kafka (says: {name})" if name else "kafka"


def in_history_order(partitions: Iterable[Iterator[ControlRecord]]) -> Iterator[ControlRecord]:
    """Merge the histories of all partitions.

    Of their first unread records, the next one is always that with the lowest timestamp, then
    partition. So the order of each partition is kept, even if its timestamps are not ascending.
    """
    return heapq.merge(*partitions, key=lambda one: (one.origin.at, one.origin.partition))


class ControlHistory:
    """Merges earlier messages field by field; previews and rollbacks among them are ignored."""

    def __init__(self) -> None:
        self._request = Request()
        self._count = 0
        self._replies: deque[Reply] = deque(maxlen=HISTORY_KEPT)
        self._ids: dict[str, None] = {}

    def add(self, record: ControlRecord) -> None:
        """Add the next message."""
        self._count += 1
        request = record.request
        if request is None:
            self._replies.append(Reply(record.origin, "rejected", record.origin.at, record.error))
            return
        if request.id is not None:
            if request.id in self._ids:
                self._replies.append(Reply(record.origin, "repeated", record.origin.at))
                return
            self._ids[request.id] = None
            if len(self._ids) > IDS_KEPT:
                del self._ids[next(iter(self._ids))]
        self._replies.append(Reply(record.origin, "history", record.origin.at))
        if request.action == "apply":
            newest = self._request
            self._request = Request(
                {**newest.topics, **request.topics}, request.join or newest.join
            )

    def replayed(self, topic_id: str, position: Offsets) -> HistoryReplayed:
        """The result as a fact."""
        return HistoryReplayed(
            topic_id, position, self._request, self._count, tuple(self._replies), tuple(self._ids)
        )
