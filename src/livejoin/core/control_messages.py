"""Control messages: parsing, validation, and their JSON Schema.

Only the message itself is validated here; its effect depends on the state.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import repeat
from typing import Any, Literal, get_args

from livejoin.core import start_position
from livejoin.core.names import Names, nearest
from livejoin.core.spec import DEFAULT, Choice, Join, JoinSpec

Action = Literal["apply", "preview", "rollback"]

MAX_BYTES = 16 << 10
MAX_DEPTH = 8
MAX_ID_CHARS = 200
MAX_WARNINGS = 5  # that a message is answered with
_EXCERPT_CHARS = 80
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class InvalidMessage(ValueError):
    """A message is rejected; the text is the reason."""


@dataclass(frozen=True)
class Request:
    """The content of a message. A field that is None keeps the previous choice."""

    topics: Mapping[str, str] = field(default_factory=dict)  # by source
    join: Join | None = None
    action: Action = "apply"
    id: str | None = None
    expected_generation: int | None = None  # must be live, or the message is rejected
    start: Mapping[str, str] = field(default_factory=dict)  # by source; if given, it forces a build
    warnings: tuple[str, ...] = ()

    def applied_to(self, choice: Choice) -> Choice:
        """The given choice with the fields of this request."""
        return Choice({**choice.topics, **self.topics}, self.join or choice.join)


@dataclass(frozen=True)
class MessageRules:
    """Which sources a message may name topics for, and which topics."""

    names: Names
    control: str
    allowed: tuple[str, ...] = ()  # patterns with *; empty: all
    spec: JoinSpec = DEFAULT

    def check(self, topic: str) -> None:
        """Raise InvalidMessage if a topic must not be read."""
        if not is_topic_name(topic):
            raise InvalidMessage(
                f"{excerpt(topic)} is not a topic name: 1 to 249 letters, digits, '.', '_' or '-',"
                " not starting with '__'; no lists, no patterns"
            )
        if topic == self.control:
            raise InvalidMessage(f"{topic} is the control topic, it cannot be read as data")
        if self.names.is_own(topic):
            raise InvalidMessage(f"{topic} is one of livejoin's own topics")
        if self.allowed and not any(fnmatchcase(topic, pattern) for pattern in self.allowed):
            raise InvalidMessage(f"{topic} is not among the topics that the settings allow")


def is_topic_name(name: str) -> bool:
    """Whether it is a valid topic name and not one of Kafka's internal topics."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..") and not name.startswith("__")


def choice_fields(join_spec: JoinSpec) -> tuple[str, ...]:
    """The fields of a message that choose what is read."""
    return (*join_spec.source_of_topic_field, "joinType", "start")


def known_fields(join_spec: JoinSpec) -> tuple[str, ...]:
    """All fields of a message."""
    return (*choice_fields(join_spec), "id", "action", "expectedGeneration")


def parse_message(raw: bytes, rules: MessageRules) -> Request:
    """Parse a message, or raise InvalidMessage with the reason."""
    message = _parse_object(raw)
    known = known_fields(rules.spec)
    unknown = [name for name in message if name not in known]
    warnings = tuple(f"unknown field {excerpt(name)}{_suggestion(name, known)}" for name in unknown)
    if len(unknown) == len(message):
        noted = "; ".join(warnings[:3]) + "; " if warnings else ""
        raise InvalidMessage(f"{noted}no known field: expected one of {', '.join(known)}")
    topics = {
        source: topic
        for name, source in rules.spec.source_of_topic_field.items()
        if (topic := _topic_field(message, name, rules)) is not None
    }
    request = Request(
        topics,
        join=_join_field(message, rules.spec),
        action=_action_field(message),
        id=_id_field(message),
        expected_generation=_expected_field(message),
        start=_start_field(message, rules.spec),
        warnings=warnings,
    )
    if request.action == "rollback" and (request.topics or request.join or request.start):
        raise InvalidMessage(f"a rollback takes none of {', '.join(choice_fields(rules.spec))}")
    return request


def message_id(raw: bytes) -> str | None:
    """The id of a message, even if the message is invalid for another reason."""
    try:
        return _id_field(_parse_object(raw))
    except InvalidMessage:
        return None


def excerpt(value: Any) -> str:
    """A value as JSON, truncated, without lone surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= _EXCERPT_CHARS else text[:_EXCERPT_CHARS] + "…"
    return cut.encode(errors="backslashreplace").decode()


def _parse_object(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise InvalidMessage(f"larger than {MAX_BYTES >> 10} KiB: {len(raw)} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise InvalidMessage("not UTF-8") from None
    if not text.strip():
        raise InvalidMessage("empty: expected a JSON object")
    message = _parse_json(text)
    if isinstance(message, str):
        hint = "JSON inside a string: send the object itself" if "{" in message else "a string"
        raise InvalidMessage(f"expected a JSON object, got {hint}")
    if not isinstance(message, dict):
        raise InvalidMessage(f"expected a JSON object, got {excerpt(message)}")
    if nesting_depth(message) > MAX_DEPTH:
        raise InvalidMessage(f"nested more than {MAX_DEPTH} deep")
    return message


def _parse_json(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except InvalidMessage:
        raise
    except RecursionError:
        raise InvalidMessage(f"nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise InvalidMessage(
            f"not valid JSON: {error.msg} at character {error.pos + 1}, got {excerpt(text)}"
        ) from None
    except ValueError:  # a number with thousands of digits
        raise InvalidMessage("not valid JSON: a number is too long") from None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    message = dict(pairs)
    if len(message) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidMessage(f"duplicate key {excerpt(twice)}")
    return message


def _reject_constant(name: str) -> None:
    raise InvalidMessage(f"not valid JSON: {name} is not a JSON number")


def nesting_depth(value: Any) -> int:
    """Nesting depth, computed without recursion: hostile messages may be deep."""
    deepest, level = 0, [value]
    while level:
        level = [item for item in level if isinstance(item, dict | list)]
        deepest += bool(level)
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return deepest


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = nearest(name, known)
    return f", did you mean {close}?" if close else ""


def _text_field(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidMessage(f"{name}: expected a string, got {excerpt(value)}")
    return value.strip() or None


def _topic_field(message: Mapping[str, Any], name: str, rules: MessageRules) -> str | None:
    topic = _text_field(message, name)
    if topic is not None:
        try:
            rules.check(topic)
        except InvalidMessage as error:
            raise InvalidMessage(f"{name}: {error}") from None
    return topic


def _join_field(message: Mapping[str, Any], join_spec: JoinSpec) -> Join | None:
    text = _text_field(message, "joinType")
    if text is None:
        return None
    join = _parse_join(text)
    if join is None:
        known = get_args(Join)
        close = nearest(text, known)
        hint = f", did you mean {close}?" if close else f": expected one of {', '.join(known)}"
        raise InvalidMessage(f"joinType: unknown join {excerpt(text)}{hint}")
    if not join_spec.allows(join):
        raise InvalidMessage(
            f"joinType: {join} takes exactly two sources, and there are {len(join_spec.sources)}"
        )
    return join


def _parse_join(text: str) -> Join | None:
    """The join that a text names, or None."""
    word = text.strip().lower()
    if word == "left" or word.startswith("natural"):
        return "left"
    if word == "join" or word.startswith("inner"):
        return "inner"
    if word in ("left_outer", "leftouter", "left-outer", "left outer"):
        return "left_outer"
    return None


def _action_field(message: Mapping[str, Any]) -> Action:
    text = (_text_field(message, "action") or "apply").lower()
    for action in get_args(Action):
        if text == action:
            return action  # type: ignore[no-any-return]
    raise InvalidMessage(
        f"action: unknown action {excerpt(text)}: expected one of {', '.join(get_args(Action))}"
    )


def _id_field(message: Mapping[str, Any]) -> str | None:
    text = _text_field(message, "id")
    if text is None:
        return None
    if len(text) > MAX_ID_CHARS:
        raise InvalidMessage(f"id: longer than {MAX_ID_CHARS} characters")
    if text != text.encode(errors="replace").decode():
        raise InvalidMessage(f"id: {excerpt(text)} is not valid Unicode")
    return text


def _expected_field(message: Mapping[str, Any]) -> int | None:
    value = message.get("expectedGeneration")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidMessage(f"expectedGeneration: expected an integer, got {excerpt(value)}")
    return value


def _start_field(message: Mapping[str, Any], join_spec: JoinSpec) -> dict[str, str]:
    value = message.get("start")
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    sources = join_spec.source_names
    by_source = value if isinstance(value, dict) else dict.fromkeys(sources, value)
    starts = {}
    for source, text in by_source.items():
        if source not in sources:
            raise InvalidMessage(
                f"start: unknown source {excerpt(source)}: expected one of {', '.join(sources)}"
            )
        try:
            starts[source] = start_position.normalize_start(text)
        except (ValueError, AttributeError):
            raise InvalidMessage(
                f"start: expected {start_position.START_EXPECTED}, got {excerpt(text)}"
            ) from None
    return starts


# JSON Schema of a control message, for editors and validators.
_TOPIC_SCHEMA = {
    "type": ["string", "null"],
    "pattern": r"^\s*(?!__)[A-Za-z0-9._-]{0,249}\s*$",
}
_START_SCHEMA = {"type": "string", "description": start_position.START_EXPECTED}


def message_schema(join_spec: JoinSpec) -> dict[str, Any]:
    """The JSON Schema of the control messages of a spec."""
    topics = {
        source.topic_field: {**_TOPIC_SCHEMA, "description": f"topic of the {source.name}{other}"}
        for source, other in zip(
            join_spec.sources, ("", *repeat("; another one", len(join_spec.lookups))), strict=True
        )
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "livejoin control message",
        "description": (
            "Any subset; what is missing, null or blank keeps the newest accepted choice."
        ),
        "type": "object",
        "minProperties": 1,
        "properties": {
            **topics,
            "joinType": {
                "type": ["string", "null"],
                "description": "trimmed, in any case",
                "examples": [*get_args(Join)],
            },
            "action": {"type": ["string", "null"], "examples": [*get_args(Action)]},
            "id": {
                "type": ["string", "null"],
                "maxLength": MAX_ID_CHARS,
                "description": "echoed in every outcome; seen again, it is a no-op",
            },
            "expectedGeneration": {
                "type": ["integer", "null"],
                "description": "the message is rejected if another one is live",
            },
            "start": {
                "description": "where reading starts, for this swap; forces a new build",
                "oneOf": [
                    {"type": "null"},
                    _START_SCHEMA,
                    {
                        "type": "object",
                        "properties": dict.fromkeys(join_spec.source_names, _START_SCHEMA),
                        "additionalProperties": False,
                    },
                ],
            },
        },
    }
