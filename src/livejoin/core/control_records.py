"""A record of the control topic as it is understood, and a topic's whole past as one request."""

from collections import deque
from dataclasses import dataclass, replace

from livejoin.core import control_messages
from livejoin.core.control_messages import InvalidMessage, Request
from livejoin.core.facts import HistoryReplayed
from livejoin.core.generation import Origin
from livejoin.core.outbox import Reply
from livejoin.core.state import IDS_KEPT

CLIENT_HEADER = "livejoin-client"  # of an HTTP request: what the person uses
BY_HEADER = "livejoin-by"  # of a record: who asked; a plain producer does not say
SIGNATURE_HEADER = "livejoin-signature"  # of a record: that livejoin itself says so
RAW_CHARS = 1024  # of a message, for people
_BY_CHARS = 100
HISTORY_KEPT = 10_000  # rows of `control_raw`


@dataclass(frozen=True)
class ControlRecord:
    """One message: where it stands, and what it asks for or why it is invalid."""

    origin: Origin
    request: Request | None
    error: str = ""


def parse_record(
    offset: int, at: float, by: str, raw: bytes, rules: control_messages.TopicRules
) -> ControlRecord:
    """Read a record. None is so bad that this raises."""
    origin = Origin(offset, at, by, _decode_text(raw))
    try:
        request = control_messages.parse_message(raw, rules)
    except InvalidMessage as error:
        return ControlRecord(replace(origin, id=control_messages.message_id(raw)), None, str(error))
    asks = replace(
        origin, id=request.id, users=request.users, accounts=request.accounts, join=request.join
    )
    return ControlRecord(asks, request)


def _decode_text(raw: bytes) -> str:
    text = raw[: 4 * RAW_CHARS].decode(errors="backslashreplace")  # no character has more bytes
    return text if len(text) <= RAW_CHARS else text[:RAW_CHARS] + "…"


def sender_name(said: bytes, *, vouched: bool) -> str:
    """Who asked, for people: what livejoin itself has written, or what a producer claims."""
    name = said.decode(errors="backslashreplace")[:_BY_CHARS]
    if vouched:
        return name
    return f"kafka (says: {name})" if name else "kafka"


class ControlHistory:
    """Folds the past of a control topic, field by field. Actions of the past count for nothing."""

    def __init__(self) -> None:
        self._request = Request()
        self._count = 0
        self._replies: deque[Reply] = deque(maxlen=HISTORY_KEPT)
        self._ids: dict[str, None] = {}

    def add(self, one: ControlRecord) -> None:
        """Take in the next message."""
        self._count += 1
        request = one.request
        if request is None:
            self._replies.append(Reply(one.origin, "rejected", one.origin.at, one.error))
            return
        if request.id is not None:
            if request.id in self._ids:
                self._replies.append(Reply(one.origin, "repeated", one.origin.at))
                return
            self._ids[request.id] = None
            if len(self._ids) > IDS_KEPT:
                del self._ids[next(iter(self._ids))]
        self._replies.append(Reply(one.origin, "history", one.origin.at))
        if request.action == "apply":
            newest = self._request
            self._request = Request(
                request.users or newest.users,
                request.accounts or newest.accounts,
                request.join or newest.join,
            )

    def replayed(self, topic_id: str, position: int) -> HistoryReplayed:
        """What it comes to."""
        return HistoryReplayed(
            topic_id, position, self._request, self._count, tuple(self._replies), tuple(self._ids)
        )
