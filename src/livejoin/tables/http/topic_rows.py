"""Topics and their messages as people see them. Pure: what is asked of Kafka is in `topics`."""

import codecs
import json
import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import Invalid, Rules, depth, shown
from livejoin.core.suggest import nearest
from livejoin.kafka.cluster import Topic
from livejoin.kafka.errors import TopicUnknown, forbidden, missing
from livejoin.tables.http.row_formats import ISO

Kind = Literal["data", "control", "livejoin"]

SHOWN_BYTES = 4 << 10
_PARSED_BYTES = 64 << 10
_PARSED_DEPTH = 100
_TOO_DEEP = f"not looked into: nested more than {_PARSED_DEPTH} deep"


class Seen(NamedTuple):
    """A message as it stands in its topic. The time is in ms, where there is one."""

    partition: int
    offset: int
    at: int | None
    key: bytes | None
    value: bytes | None


class Measured(NamedTuple):
    """What a topic holds: how many offsets, and the newest time; or why that is not known."""

    records: int | None
    newest: int | None
    trouble: str | None = None


def kind(topic: str, rules: Rules) -> Kind | None:
    """What a topic is to livejoin; None: it is not shown."""
    if topic == rules.control:
        return "control"
    if topic == rules.names.tokens:
        return None  # nobody needs to see even the hashes
    if rules.names.own(topic):
        return "livejoin"
    try:
        rules.check(topic)
    except Invalid:
        return None
    return "data"


def row(topic: Topic, measured: Measured, rules: Rules) -> dict[str, Any]:
    """A topic in the list."""
    return {
        "name": topic.name,
        "kind": kind(topic.name, rules),
        "partitions": len(topic.partitions),
        "records": measured.records,
        "newest": iso(measured.newest),
        "trouble": measured.trouble if topic.readable else forbidden(topic.name).message,
    }


def unknown(topic: str, known: Iterable[str]) -> TopicUnknown:
    """The error for a topic that is not there, or not shown."""
    close = nearest(topic, known)
    hint = f"Did you mean {close}?" if close else "`livejoin topics` lists what there is."
    return TopicUnknown(missing(topic).message, hint=hint)


def message_row(seen: Seen) -> dict[str, Any]:
    """A message in the answer to a peek."""
    found, reason = parsed(seen.value)
    return {
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp": iso(seen.at),
        "key": text(seen.key),
        "value": text(seen.value),
        "valueBytes": None if seen.value is None else len(seen.value),
        "parsed": found,
        "reason": reason,
    }


def newest_first(tails: Iterable[Iterable[Seen]], count: int) -> list[Seen]:
    """The newest of all partitions, by time, then offset."""
    every = [seen for tail in tails for seen in tail]
    every.sort(key=lambda one: (-math.inf if one.at is None else one.at, one.offset), reverse=True)
    return every[:count]


def text(raw: bytes | None) -> str | None:
    r"""Bytes for people, cut; what is not UTF-8 shows as \xNN."""
    if raw is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    # a character that the cut divides is left out
    return decoder.decode(raw[:SHOWN_BYTES], final=len(raw) <= SHOWN_BYTES)


def parsed(value: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    """The object that a source would take a message for, or why it would not."""
    if value is None:
        return None, "null: a tombstone, which is counted and ignored"
    if len(value) > _PARSED_BYTES:
        return None, f"not looked into: {len(value)} bytes, more than {_PARSED_BYTES >> 10} KiB"
    try:
        return _object(value), None
    except RecursionError:
        return None, _TOO_DEEP
    except ValueError as error:
        return None, str(error)


def _object(value: bytes) -> dict[str, Any]:
    """The object, or a ValueError with the reason, worded as in `rejects_ui`."""
    if not value:
        raise ValueError("value: empty")
    try:
        found = json.loads(value.decode(), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError:
        raise ValueError("value: not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"value: not valid JSON: {error}") from None
    if depth(found) > _PARSED_DEPTH:
        raise ValueError(_TOO_DEEP)
    if not isinstance(found, dict):
        raise ValueError(f"value: expected an object, got {shown(found)}")  # noqa: TRY004 - data
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _finite(number: str) -> float | str:
    """A number, or its text where a double would be infinite, which JSON cannot say."""
    return number if math.isinf(float(number)) else float(number)


def iso(at: int | None) -> str | None:
    """A time as text."""
    found: str | None = pc.strftime(pa.scalar(at, pa.timestamp("ms", "UTC")), ISO).as_py()
    return found
