"""JSON rows of topics and their messages. Pure; `topic_browser` queries Kafka."""

import codecs
import json
import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import InvalidMessage, MessageRules, excerpt, nesting_depth
from livejoin.core.names import nearest
from livejoin.errors import TopicMissing
from livejoin.kafka.cluster import Topic
from livejoin.kafka.topic_errors import topic_not_authorized, topic_not_found
from livejoin.tables.http.row_formats import ISO

TopicKind = Literal["data", "control", "livejoin"]

MAX_TEXT_BYTES = 4 << 10
_MAX_PARSED_BYTES = 64 << 10
_MAX_PARSED_DEPTH = 100
_TOO_DEEP = f"not parsed: nested more than {_MAX_PARSED_DEPTH} levels deep"


class PeekedMessage(NamedTuple):
    """A message of a topic; the timestamp is None where it has none."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


class TopicSize(NamedTuple):
    """Number of offsets and newest timestamp of a topic, or why they are unknown."""

    records: int | None
    newest_ms: int | None
    trouble: str | None = None


def topic_kind(topic: str, rules: MessageRules) -> TopicKind | None:
    """Return how livejoin uses a topic; None if it is hidden."""
    if topic == rules.control:
        return "control"
    if topic == rules.names.tokens:
        return None  # it holds token hashes
    if rules.names.is_own(topic):
        return "livejoin"
    try:
        rules.check(topic)
    except InvalidMessage:
        return None
    return "data"


def topic_row(topic: Topic, size: TopicSize, rules: MessageRules) -> dict[str, Any]:
    """Return the row of a topic in the list."""
    return {
        "name": topic.name,
        "kind": topic_kind(topic.name, rules),
        "partitions": len(topic.partitions),
        "records": size.records,
        "newest": iso_time(size.newest_ms),
        "trouble": size.trouble if topic.readable else topic_not_authorized(topic.name).message,
    }


def unknown_topic(topic: str, known: Iterable[str]) -> TopicMissing:
    """Return the error for a topic that does not exist or is hidden."""
    suggestion = nearest(topic, known)
    hint = f"Did you mean {suggestion}?" if suggestion else "`livejoin topics` lists them."
    return TopicMissing(topic_not_found(topic).message, hint=hint)


def message_row(message: PeekedMessage) -> dict[str, Any]:
    """Return the row of a message in a peek."""
    result, reason = parse_value(message.value)
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": iso_time(message.timestamp_ms),
        "key": decode_text(message.key),
        "value": decode_text(message.value),
        "valueBytes": None if message.value is None else len(message.value),
        "parsed": result,
        "reason": reason,
    }


def newest_first(tails: Iterable[Iterable[PeekedMessage]], count: int) -> list[PeekedMessage]:
    """Return the newest messages of all partitions, by timestamp, then offset."""
    messages = [message for tail in tails for message in tail]
    messages.sort(
        key=lambda message: (
            -math.inf if message.timestamp_ms is None else message.timestamp_ms,
            message.offset,
        ),
        reverse=True,
    )
    return messages[:count]


def decode_text(raw: bytes | None) -> str | None:
    r"""Decode bytes for display, truncated; invalid UTF-8 becomes \xNN."""
    if raw is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    # drops a character that the truncation splits
    return decoder.decode(raw[:MAX_TEXT_BYTES], final=len(raw) <= MAX_TEXT_BYTES)


def parse_value(value: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    """Return the JSON object that a source would see, or why it would reject the value."""
    if value is None:
        return None, "null: a tombstone, which is counted and ignored"
    if len(value) > _MAX_PARSED_BYTES:
        return None, f"not parsed: {len(value)} bytes, more than {_MAX_PARSED_BYTES >> 10} KiB"
    try:
        return _parse_object(value), None
    except RecursionError:
        return None, _TOO_DEEP
    except ValueError as error:
        return None, str(error)


def _parse_object(value: bytes) -> dict[str, Any]:
    """Return the object; raises ValueError with the reason, worded as in `rejects_ui`."""
    if not value:
        raise ValueError("value: empty")
    try:
        result = json.loads(
            value.decode(), parse_constant=_reject_constant, parse_float=_parse_float
        )
    except UnicodeDecodeError:
        raise ValueError("value: not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"value: not valid JSON: {error}") from None
    if nesting_depth(result) > _MAX_PARSED_DEPTH:
        raise ValueError(_TOO_DEEP)
    if not isinstance(result, dict):
        raise ValueError(f"value: expected an object, got {excerpt(result)}")  # noqa: TRY004 - data
    return result


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _parse_float(number: str) -> float | str:
    """Return a float, or its text if it overflows, as JSON has no infinity."""
    return number if math.isinf(float(number)) else float(number)


def iso_time(timestamp_ms: int | None) -> str | None:
    """Return a timestamp in ms as ISO text."""
    result: str | None = pc.strftime(
        pa.scalar(timestamp_ms, pa.timestamp("ms", "UTC")), ISO
    ).as_py()
    return result
