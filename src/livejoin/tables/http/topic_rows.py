"""Topics and their messages as people see them. Pure: what is asked of Kafka is in `topics`."""

import codecs
import json
import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import InvalidMessage, TopicRules, excerpt, nesting_depth
from livejoin.core.suggest import nearest
from livejoin.kafka.cluster import Topic
from livejoin.kafka.errors import TopicUnknown, topic_not_authorized, topic_not_found
from livejoin.tables.http.row_formats import ISO

TopicKind = Literal["data", "control", "livejoin"]

MAX_TEXT_BYTES = 4 << 10
_MAX_PARSED_BYTES = 64 << 10
_MAX_PARSED_DEPTH = 100
_TOO_DEEP = f"not looked into: nested more than {_MAX_PARSED_DEPTH} deep"


class PeekedMessage(NamedTuple):
    """A message as it stands in its topic. The time is in ms, where there is one."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


class TopicSize(NamedTuple):
    """What a topic holds: how many offsets, and the newest time; or why that is not known."""

    records: int | None
    newest_ms: int | None
    trouble: str | None = None


def topic_kind(topic: str, rules: TopicRules) -> TopicKind | None:
    """What a topic is to livejoin; None: it is not shown."""
    if topic == rules.control:
        return "control"
    if topic == rules.names.tokens:
        return None  # nobody needs to see even the hashes
    if rules.names.is_own(topic):
        return "livejoin"
    try:
        rules.check(topic)
    except InvalidMessage:
        return None
    return "data"


def topic_row(topic: Topic, measured: TopicSize, rules: TopicRules) -> dict[str, Any]:
    """A topic in the list."""
    return {
        "name": topic.name,
        "kind": topic_kind(topic.name, rules),
        "partitions": len(topic.partitions),
        "records": measured.records,
        "newest": iso_time(measured.newest_ms),
        "trouble": measured.trouble if topic.readable else topic_not_authorized(topic.name).message,
    }


def unknown_topic(topic: str, known: Iterable[str]) -> TopicUnknown:
    """The error for a topic that is not there, or not shown."""
    close = nearest(topic, known)
    hint = f"Did you mean {close}?" if close else "`livejoin topics` lists what there is."
    return TopicUnknown(topic_not_found(topic).message, hint=hint)


def message_row(seen: PeekedMessage) -> dict[str, Any]:
    """A message in the answer to a peek."""
    found, reason = parse_value(seen.value)
    return {
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp": iso_time(seen.timestamp_ms),
        "key": decode_text(seen.key),
        "value": decode_text(seen.value),
        "valueBytes": None if seen.value is None else len(seen.value),
        "parsed": found,
        "reason": reason,
    }


def newest_first(tails: Iterable[Iterable[PeekedMessage]], count: int) -> list[PeekedMessage]:
    """The newest of all partitions, by time, then offset."""
    every = [seen for tail in tails for seen in tail]
    every.sort(
        key=lambda one: (-math.inf if one.timestamp_ms is None else one.timestamp_ms, one.offset),
        reverse=True,
    )
    return every[:count]


def decode_text(raw: bytes | None) -> str | None:
    r"""Bytes for people, cut; what is not UTF-8 shows as \xNN."""
    if raw is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    # a character that the cut divides is left out
    return decoder.decode(raw[:MAX_TEXT_BYTES], final=len(raw) <= MAX_TEXT_BYTES)


def parse_value(value: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    """The object that a source would take a message for, or why it would not."""
    if value is None:
        return None, "null: a tombstone, which is counted and ignored"
    if len(value) > _MAX_PARSED_BYTES:
        return None, f"not looked into: {len(value)} bytes, more than {_MAX_PARSED_BYTES >> 10} KiB"
    try:
        return _parse_object(value), None
    except RecursionError:
        return None, _TOO_DEEP
    except ValueError as error:
        return None, str(error)


def _parse_object(value: bytes) -> dict[str, Any]:
    """The object, or a ValueError with the reason, worded as in `rejects_ui`."""
    if not value:
        raise ValueError("value: empty")
    try:
        found = json.loads(
            value.decode(), parse_constant=_reject_constant, parse_float=_parse_float
        )
    except UnicodeDecodeError:
        raise ValueError("value: not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"value: not valid JSON: {error}") from None
    if nesting_depth(found) > _MAX_PARSED_DEPTH:
        raise ValueError(_TOO_DEEP)
    if not isinstance(found, dict):
        raise ValueError(f"value: expected an object, got {excerpt(found)}")  # noqa: TRY004 - data
    return found


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _parse_float(number: str) -> float | str:
    """A number, or its text where a double would be infinite, which JSON cannot say."""
    return number if math.isinf(float(number)) else float(number)


def iso_time(at: int | None) -> str | None:
    """A time as text."""
    found: str | None = pc.strftime(pa.scalar(at, pa.timestamp("ms", "UTC")), ISO).as_py()
    return found
