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
_SHOWN_CHARS = 80
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TOPIC_FIELDS = {"usersTopic": "users", "accountsTopic": "accounts"}
_CHOICE = (*_TOPIC_FIELDS, "joinType", "start")
FIELDS = (*_CHOICE, "id", "action", "expectedGeneration")


class Invalid(ValueError):
    """Why a message is rejected."""


@dataclass(frozen=True)
class Request:
    """What a message asks for. A field that is None keeps what was chosen before."""

    users: str | None = None
    accounts: str | None = None
    join: spec.Join | None = None
    action: Action = "apply"
    id: str | None = None
    expected: int | None = None  # the generation that must be live
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
class Rules:
    """Which topics may be named."""

    names: Names
    control: str
    allowed: tuple[str, ...] = ()  # with * for anything; empty: all

    def check(self, topic: str) -> None:
        """Raise Invalid where a topic may not be read."""
        if not topic_name(topic):
            raise Invalid(
                f"{shown(topic)} is no topic name: 1 to 249 letters, digits, '.', '_' or '-',"
                " not starting with '__'; no lists, no patterns"
            )
        if topic == self.control:
            raise Invalid(f"{topic} is the control topic, it cannot be read as data")
        if self.names.own(topic):
            raise Invalid(f"{topic} is one of livejoin's own topics")
        if self.allowed and not any(fnmatchcase(topic, one) for one in self.allowed):
            raise Invalid(f"{topic} is not among the topics that the settings allow")


def topic_name(name: str) -> bool:
    """Whether Kafka takes it as a topic's name, and it is not one of Kafka's own."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..") and not name.startswith("__")


def read(raw: bytes, rules: Rules) -> Request:
    """Understand a message, or raise Invalid with a reason that helps."""
    message = _object(raw)
    unknown = [name for name in message if name not in FIELDS]
    warnings = tuple(f"unknown field {shown(name)}{_meant(name)}" for name in unknown)
    if len(unknown) == len(message):
        said = "; ".join(warnings[:3]) + "; " if warnings else ""
        raise Invalid(f"{said}no known field: known are {', '.join(FIELDS)}")
    topics = {source: _topic(message, name, rules) for name, source in _TOPIC_FIELDS.items()}
    request = Request(
        **topics,
        join=_join(message),
        action=_action(message),
        id=_id(message),
        expected=_expected(message),
        start=_start(message),
        warnings=warnings,
    )
    chosen = (request.users, request.accounts, request.join, request.start)
    if request.action == "rollback" and any(chosen):
        raise Invalid(f"a rollback takes none of {', '.join(_CHOICE)}")
    return request


def identity(raw: bytes) -> str | None:
    """The id of a message, also of one that is rejected for something else."""
    try:
        return _id(_object(raw))
    except Invalid:
        return None


def shown(value: Any) -> str:
    """A value for people, cut, in characters that can be written anywhere."""
    text = json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    return cut.encode(errors="backslashreplace").decode()


def _object(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise Invalid(f"larger than {MAX_BYTES >> 10} KiB: {len(raw)} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Invalid("not UTF-8") from None
    if not text.strip():
        raise Invalid("empty: expected a JSON object")
    message = _json(text)
    if isinstance(message, str):
        hint = "JSON inside a string: send the object itself" if "{" in message else "a string"
        raise Invalid(f"expected a JSON object, got {hint}")
    if not isinstance(message, dict):
        raise Invalid(f"expected a JSON object, got {shown(message)}")
    if depth(message) > MAX_DEPTH:
        raise Invalid(f"nested more than {MAX_DEPTH} deep")
    return message


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except Invalid:
        raise
    except RecursionError:
        raise Invalid(f"nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise Invalid(
            f"not valid JSON: {error.msg} at character {error.pos + 1}, got {shown(text)}"
        ) from None
    except ValueError:  # a number of thousands of digits
        raise Invalid("not valid JSON: a number is too long") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Invalid(f"duplicate key {shown(twice)}")
    return found


def _no_constant(name: str) -> None:
    raise Invalid(f"not valid JSON: {name} is no JSON number")


def depth(value: Any) -> int:
    """How deep it is nested, without recursion: hostile messages are deep."""
    deepest, level = 0, [value]
    while level:
        level = [one for one in level if isinstance(one, dict | list)]
        deepest += bool(level)
        level = [
            below for one in level for below in (one.values() if isinstance(one, dict) else one)
        ]
    return deepest


def _meant(name: str) -> str:
    close = nearest(name, FIELDS)
    return f", did you mean {close}?" if close else ""


def _text(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Invalid(f"{name}: expected a string, got {shown(value)}")
    return value.strip() or None


def _topic(message: Mapping[str, Any], name: str, rules: Rules) -> str | None:
    topic = _text(message, name)
    if topic is not None:
        try:
            rules.check(topic)
        except Invalid as error:
            raise Invalid(f"{name}: {error}") from None
    return topic


def _join(message: Mapping[str, Any]) -> spec.Join | None:
    text = _text(message, "joinType")
    if text is None:
        return None
    join = spec.read_join(text)
    if join is None:
        known = get_args(spec.Join)
        close = nearest(text, known)
        meant = f", did you mean {close}?" if close else f": known are {', '.join(known)}"
        raise Invalid(f"joinType: unknown join {shown(text)}{meant}")
    return join


def _action(message: Mapping[str, Any]) -> Action:
    text = (_text(message, "action") or "apply").lower()
    for action in get_args(Action):
        if text == action:
            return action  # type: ignore[no-any-return]
    raise Invalid(f"action: unknown action {shown(text)}: known are {', '.join(get_args(Action))}")


def _id(message: Mapping[str, Any]) -> str | None:
    text = _text(message, "id")
    if text is None:
        return None
    if len(text) > MAX_ID_CHARS:
        raise Invalid(f"id: longer than {MAX_ID_CHARS} characters")
    if text != text.encode(errors="replace").decode():
        raise Invalid(f"id: {shown(text)} is no Unicode text")
    return text


def _expected(message: Mapping[str, Any]) -> int | None:
    value = message.get("expectedGeneration")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise Invalid(f"expectedGeneration: expected an integer, got {shown(value)}")
    return value


def _start(message: Mapping[str, Any]) -> dict[str, str]:
    value = message.get("start")
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    sources = [source.name for source in spec.SOURCES]
    given = value if isinstance(value, dict) else dict.fromkeys(sources, value)
    found = {}
    for source, text in given.items():
        if source not in sources:
            raise Invalid(f"start: unknown source {shown(source)}: known are {', '.join(sources)}")
        try:
            found[source] = start.checked(text)
        except (ValueError, AttributeError):
            raise Invalid(f"start: expected {start.EXPECTED}, got {shown(text)}") from None
    return found
