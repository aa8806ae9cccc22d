"""JSON rows of topics and their messages. Pure; `topic_browser` queries Kafka."""

import base64
import codecs
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import InvalidMessage, MessageRules, excerpt, nesting_depth
from livejoin.core.names import nearest
from livejoin.errors import TopicMissing
from livejoin.kafka.cluster import Topic
from livejoin.kafka.range_reader import ScannedRecord
from livejoin.kafka.records import OffsetRange
from livejoin.kafka.scan import ScanResult
from livejoin.kafka.topic_errors import topic_not_authorized, topic_not_found
from livejoin.tables.http.peek_request import format_cursor
from livejoin.tables.http.row_formats import ISO

TopicKind = Literal["data", "control", "livejoin"]

MAX_TEXT_BYTES = 4 << 10  # of a key or value
MAX_HEADER_BYTES = 1 << 10  # of a header's value
MAX_HEADERS = 50  # of a message
_MAX_PARSED_BYTES = 64 << 10
_MAX_PARSED_DEPTH = 100
_TOO_DEEP = f"not parsed: nested more than {_MAX_PARSED_DEPTH} levels deep"


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


def peek_body(
    topic: str, retained: Mapping[int, OffsetRange], result: ScanResult
) -> dict[str, Any]:
    """Return the body of a peek."""
    low = {p: covered.start for p, covered in result.covered.items()}
    high = {p: covered.end for p, covered in result.covered.items()}
    is_first = all(low[p] <= offsets.start for p, offsets in retained.items())
    return {
        "topic": topic,
        "complete": result.complete,
        "scanned": result.scanned,
        "reached": iso_time(result.reached_ms),
        "older": None if is_first else format_cursor(low),
        "newer": format_cursor(high),
        "partitions": [
            {"partition": p, "start": start, "end": end}
            for p, (start, end) in sorted(retained.items())
        ],
        "messages": [message_row(record) for record in result.found],
    }


def message_row(record: ScannedRecord) -> dict[str, Any]:
    """Return the row of a message in a peek."""
    result, reason = parse_value(record.value)
    key, value = record.key, record.value
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": iso_time(record.timestamp_ms),
        "key": decode_text(key),
        "keyBytes": None if key is None else len(key),
        "value": decode_text(value),
        "valueBytes": None if value is None else len(value),
        "cut": any(raw is not None and len(raw) > MAX_TEXT_BYTES for raw in (key, value)),
        "headers": [_header_row(*header) for header in record.headers[:MAX_HEADERS]],
        "headersLeftOut": max(0, len(record.headers) - MAX_HEADERS),
        "parsed": result,
        "reason": reason,
    }


def _header_row(name: str, value: bytes | None) -> dict[str, Any]:
    """Return a header: its value as text, or in base64 if it is not UTF-8."""
    shown = {"text": None, "base64": None} | _header_value(value)
    return {
        "name": name[:MAX_HEADER_BYTES],
        **shown,
        "bytes": None if value is None else len(value),
    }


def _header_value(value: bytes | None) -> dict[str, str]:
    if value is None:
        return {}
    try:
        value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value[:MAX_HEADER_BYTES]).decode()}
    return {"text": decode_text(value, MAX_HEADER_BYTES) or ""}


def decode_text(raw: bytes | None, max_bytes: int = MAX_TEXT_BYTES) -> str | None:
    r"""Decode bytes for display, truncated; invalid UTF-8 becomes \xNN."""
    if raw is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    # drops a character that the truncation splits
    return decoder.decode(raw[:max_bytes], final=len(raw) <= max_bytes)


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
