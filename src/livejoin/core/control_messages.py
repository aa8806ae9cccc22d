"""Control messages: what one asks for, or why it cannot be understood.

Only what stands in the message itself is checked here; what it means depends on the state.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from livejoin.core import spec
from livejoin.core import start_position as start
from livejoin.core.names import Names
from livejoin.core.suggest import nearest

Action = Literal["apply", "preview", "rollback"]

MAX_BYTES = 16 << 10
MAX_DEPTH = 8
MAX_ID_CHARS = 200
_EXCERPT_CHARS = 80
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TOPIC_FIELDS = {"usersTopic": "users", "accountsTopic": "accounts"}
_CHOICE_FIELDS = (*_TOPIC_FIELDS, "joinType", "start")
FIELDS = (*_CHOICE_FIELDS, "id", "action", "expectedGeneration")


class InvalidMessage(ValueError):
    """Why a message is rejected."""


@dataclass(frozen=True)
class Request:
    """What a message asks for. A field that is None keeps what was chosen before."""

    users: str | None = None
    accounts: str | None = None
    join: spec.Join | None = None
    action: Action = "apply"
    id: str | None = None
    expected_generation: int | None = None  # the generation that must be live
    start: Mapping[str, str] = field(default_factory=dict)  # by source; given, it forces a build
    warnings: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it names."""
        return tuple(topic for topic in (self.users, self.accounts) if topic is not None)

    def applied_to(self, choice: spec.Choice) -> spec.Choice:
        """The choice that results."""
        return spec.Choice(
            self.users or choice.users, self.accounts or choice.accounts, self.join or choice.join
        )


@dataclass(frozen=True)
class TopicRules:
    """Which topics may be named."""

    names: Names
    control: str
    allowed: tuple[str, ...] = ()  # with * for anything; empty: all

    def check(self, topic: str) -> None:
        """Raise Invalid where a topic may not be read."""
        if not is_topic_name(topic):
            raise InvalidMessage(
                f"{excerpt(topic)} is no topic name: 1 to 249 letters, digits, '.', '_' or '-',"
                " not starting with '__'; no lists, no patterns"
            )
        if topic == self.control:
            raise InvalidMessage(f"{topic} is the control topic, it cannot be read as data")
        if self.names.is_own(topic):
            raise InvalidMessage(f"{topic} is one of livejoin's own topics")
        if self.allowed and not any(fnmatchcase(topic, one) for one in self.allowed):
            raise InvalidMessage(f"{topic} is not among the topics that the settings allow")


def is_topic_name(name: str) -> bool:
    """Whether Kafka takes it as a topic's name, and it is not one of Kafka's own."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..") and not name.startswith("__")


def parse_message(raw: bytes, rules: TopicRules) -> Request:
    """Understand a message, or raise Invalid with a reason that helps."""
    message = _parse_object(raw)
    unknown = [name for name in message if name not in FIELDS]
    warnings = tuple(f"unknown field {excerpt(name)}{_suggestion(name)}" for name in unknown)
    if len(unknown) == len(message):
        said = "; ".join(warnings[:3]) + "; " if warnings else ""
        raise InvalidMessage(f"{said}no known field: known are {', '.join(FIELDS)}")
    topics = {source: _topic_field(message, name, rules) for name, source in _TOPIC_FIELDS.items()}
    request = Request(
        **topics,
        join=_join_field(message),
        action=_action_field(message),
        id=_id_field(message),
        expected_generation=_expected_field(message),
        start=_start_field(message),
        warnings=warnings,
    )
    chosen = (request.users, request.accounts, request.join, request.start)
    if request.action == "rollback" and any(chosen):
        raise InvalidMessage(f"a rollback takes none of {', '.join(_CHOICE_FIELDS)}")
    return request


def message_id(raw: bytes) -> str | None:
    """The id of a message, also of one that is rejected for something else."""
    try:
        return _id_field(_parse_object(raw))
    except InvalidMessage:
        return None


def excerpt(value: Any) -> str:
    """A value for people, cut, in characters that can be written anywhere."""
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
    except ValueError:  # a number of thousands of digits
        raise InvalidMessage("not valid JSON: a number is too long") from None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidMessage(f"duplicate key {excerpt(twice)}")
    return found


def _reject_constant(name: str) -> None:
    raise InvalidMessage(f"not valid JSON: {name} is no JSON number")


def nesting_depth(value: Any) -> int:
    """How deep it is nested, without recursion: hostile messages are deep."""
    deepest, level = 0, [value]
    while level:
        level = [one for one in level if isinstance(one, dict | list)]
        deepest += bool(level)
        level = [
            below for one in level for below in (one.values() if isinstance(one, dict) else one)
        ]
    return deepest


def _suggestion(name: str) -> str:
    close = nearest(name, FIELDS)
    return f", did you mean {close}?" if close else ""


def _text_field(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidMessage(f"{name}: expected a string, got {excerpt(value)}")
    return value.strip() or None


def _topic_field(message: Mapping[str, Any], name: str, rules: TopicRules) -> str | None:
    topic = _text_field(message, name)
    if topic is not None:
        try:
            rules.check(topic)
        except InvalidMessage as error:
            raise InvalidMessage(f"{name}: {error}") from None
    return topic


def _join_field(message: Mapping[str, Any]) -> spec.Join | None:
    text = _text_field(message, "joinType")
    if text is None:
        return None
    join = spec.parse_join(text)
    if join is None:
        known = get_args(spec.Join)
        close = nearest(text, known)
        meant = f", did you mean {close}?" if close else f": known are {', '.join(known)}"
        raise InvalidMessage(f"joinType: unknown join {excerpt(text)}{meant}")
    return join


def _action_field(message: Mapping[str, Any]) -> Action:
    text = (_text_field(message, "action") or "apply").lower()
    for action in get_args(Action):
        if text == action:
            return action  # type: ignore[no-any-return]
    raise InvalidMessage(
        f"action: unknown action {excerpt(text)}: known are {', '.join(get_args(Action))}"
    )


def _id_field(message: Mapping[str, Any]) -> str | None:
    text = _text_field(message, "id")
    if text is None:
        return None
    if len(text) > MAX_ID_CHARS:
        raise InvalidMessage(f"id: longer than {MAX_ID_CHARS} characters")
    if text != text.encode(errors="replace").decode():
        raise InvalidMessage(f"id: {excerpt(text)} is no Unicode text")
    return text


def _expected_field(message: Mapping[str, Any]) -> int | None:
    value = message.get("expectedGeneration")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidMessage(f"expectedGeneration: expected an integer, got {excerpt(value)}")
    return value


def _start_field(message: Mapping[str, Any]) -> dict[str, str]:
    value = message.get("start")
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    sources = [source.name for source in spec.SOURCES]
    given = value if isinstance(value, dict) else dict.fromkeys(sources, value)
    found = {}
    for source, text in given.items():
        if source not in sources:
            raise InvalidMessage(
                f"start: unknown source {excerpt(source)}: known are {', '.join(sources)}"
            )
        try:
            found[source] = start.normalize(text)
        except (ValueError, AttributeError):
            raise InvalidMessage(f"start: expected {start.EXPECTED}, got {excerpt(text)}") from None
    return found
