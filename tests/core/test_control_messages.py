"""Parsing of control messages, with the exact reason for each rejection."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core import spec, start_position
from livejoin.core.control_messages import (
    MAX_BYTES,
    InvalidMessage,
    MessageRules,
    Request,
    excerpt,
    is_topic_name,
    known_fields,
    parse_message,
)
from livejoin.core.names import Names

RULES = MessageRules(Names("livejoin"), "control")
KNOWN = (
    "no known field: expected one of usersTopic, accountsTopic, joinType, start, id, action,"
    " expectedGeneration"
)
NO_NAME = (
    " is not a topic name: 1 to 249 letters, digits, '.', '_' or '-', not starting with '__';"
    " no lists, no patterns"
)
NO_START = f"start: expected {start_position.START_EXPECTED}, got "


def _read(raw: bytes | str, rules: MessageRules = RULES) -> Request:
    return parse_message(raw if isinstance(raw, bytes) else raw.encode(), rules)


def _reason(raw: bytes | str, rules: MessageRules = RULES) -> str:
    with pytest.raises(InvalidMessage) as raised:
        _read(raw, rules)
    return str(raised.value)


VALID: dict[str, tuple[str, Request]] = {
    "one field changes one thing": ('{"joinType":"inner"}', Request(join="inner")),
    "all three": (
        '{"usersTopic":"u","accountsTopic":"a","joinType":"left"}',
        Request({"users": "u", "accounts": "a"}, "left"),
    ),
    "values are trimmed": (
        '{"usersTopic":" u\\n","joinType":"\\tINNER ","id":" 7 ","action":" Preview "}',
        Request({"users": "u"}, join="inner", id="7", action="preview"),
    ),
    "null and blank keep what was chosen before": (
        '{"usersTopic":null,"accountsTopic":"","joinType":"  ","id":"","action":"","start":""}',
        Request(),
    ),
    "a rollback names nothing else": ('{"action":"rollback"}', Request(action="rollback")),
    "a rollback may name what must be live": (
        '{"action":"ROLLBACK","id":"x","expectedGeneration":7}',
        Request(action="rollback", id="x", expected_generation=7),
    ),
    "null beside a rollback is nothing": (
        '{"action":"rollback","usersTopic":null,"start":null}',
        Request(action="rollback"),
    ),
    "blank beside a rollback is nothing": (
        '{"action":"rollback","usersTopic":"","joinType":" "}',
        Request(action="rollback"),
    ),
    "one start is for every source": (
        '{"start":"1h"}',
        Request(start={"users": "1h", "accounts": "1h"}),
    ),
    "a start for one source": (
        '{"start":{"accounts":" Latest "}}',
        Request(start={"accounts": "latest"}),
    ),
    "no start in an object is none": ('{"start":{}}', Request()),
    "a blank start is none": ('{"start":" "}', Request()),
    "white space around the object does not matter": (
        ' \n{"joinType":"inner"}\r\n',
        Request(join="inner"),
    ),
    "an unknown field beside known ones is a warning": (
        '{"joinType":"inner","userstopic":"u","colour":1}',
        Request(
            join="inner",
            warnings=(
                'unknown field "userstopic", did you mean usersTopic?',
                'unknown field "colour"',
            ),
        ),
    ),
}


@pytest.mark.parametrize("rule", VALID)
def test_a_valid_message_is_parsed(rule: str) -> None:
    raw, request = VALID[rule]
    assert _read(raw) == request


JOINS = {
    "left": "left, LEFT, natural, natural join, Natural-Left, naturaljoin",
    "inner": "inner, join, JOIN, inner join, inner_join, InnerJoin",
    "left_outer": "left_outer, leftouter, left-outer, left outer, Left Outer",
}


@pytest.mark.parametrize(
    ("word", "join"), [(word, join) for join, words in JOINS.items() for word in words.split(", ")]
)
def test_a_join_has_several_spellings(word: str, join: str) -> None:
    assert _read(json.dumps({"joinType": f" {word} "})).join == join


REJECTED: dict[str, tuple[bytes | str, str]] = {
    "nothing": ("", "empty: expected a JSON object"),
    "white space": (" \n", "empty: expected a JSON object"),
    "bytes that are no text": (b'{"joinType":"\xff"}', "not UTF-8"),
    "no JSON": ("users_b", 'not valid JSON: Expecting value at character 1, got "users_b"'),
    "JSON that is cut": (
        '{"joinType":',
        'not valid JSON: Expecting value at character 13, got "{\\"joinType\\":"',
    ),
    "something after the object": (
        '{"id":"1"} x',
        'not valid JSON: Extra data at character 12, got "{\\"id\\":\\"1\\"} x"',
    ),
    "a byte order mark": (
        '\ufeff{"id":"1"}',
        (
            "not valid JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) at character 1, got"
            ' "\ufeff{\\"id\\":\\"1\\"}"'
        ),
    ),
    "no number": ('{"start":NaN}', "not valid JSON: NaN is not a JSON number"),
    "an endless number": (
        '{"expectedGeneration":-Infinity}',
        "not valid JSON: -Infinity is not a JSON number",
    ),
    "a number of too many digits": (
        '{"expectedGeneration":' + "9" * 5000 + "}",
        "not valid JSON: a number is too long",
    ),
    "a list": ('["users"]', 'expected a JSON object, got ["users"]'),
    "a number": ("1", "expected a JSON object, got 1"),
    "null": ("null", "expected a JSON object, got null"),
    "a string": ('"inner"', "expected a JSON object, got a string"),
    "JSON in a string": (
        '"{\\"joinType\\":\\"inner\\"}"',
        "expected a JSON object, got JSON inside a string: send the object itself",
    ),
    "too large": (
        '{"id":"' + "x" * MAX_BYTES + '"}',
        f"larger than 16 KiB: {MAX_BYTES + 9} bytes",
    ),
    "too deep": (
        '{"id":' + "[" * 8 + "]" * 8 + "}",
        "nested more than 8 deep",
    ),
    "so deep that it cannot be read": ('{"id":' + "[" * 8000, "nested more than 8 deep"),
    "a key twice": ('{"id":"1","joinType":"left","id":"1"}', 'duplicate key "id"'),
    "a key twice, further down": (
        '{"start":{"users":"1h","users":"2h"}}',
        'duplicate key "users"',
    ),
    "no field": ("{}", KNOWN),
    "no known field": ('{"colour":1}', f'unknown field "colour"; {KNOWN}'),
    "a known field, nearly": (
        '{"userstopic":"u"}',
        f'unknown field "userstopic", did you mean usersTopic?; {KNOWN}',
    ),
    "many unknown fields: three are named": (
        '{"users":"u","accounts":"a","join":"left","b":1}',
        'unknown field "users", did you mean usersTopic?; unknown field "accounts", did you mean'
        ' accountsTopic?; unknown field "join", did you mean joinType?; ' + KNOWN,
    ),
    "a topic of the wrong type": ('{"usersTopic":7}', "usersTopic: expected a string, got 7"),
    "a list of topics": (
        '{"accountsTopic":["a","b"]}',
        'accountsTopic: expected a string, got ["a", "b"]',
    ),
    "a join of the wrong type": ('{"joinType":true}', "joinType: expected a string, got true"),
    "an action of the wrong type": ('{"action":{}}', "action: expected a string, got {}"),
    "an id of the wrong type": ('{"id":1.5}', "id: expected a string, got 1.5"),
    "a long wrong value is cut": (
        json.dumps({"id": ["x" * 100]}),
        'id: expected a string, got ["' + "x" * 78 + "…",
    ),
    "no topic name": ('{"usersTopic":"a b"}', f'usersTopic: "a b"{NO_NAME}'),
    "an unknown join, nearly": (
        '{"joinType":"left_outr"}',
        'joinType: unknown join "left_outr", did you mean left_outer?',
    ),
    "an unknown join": (
        '{"joinType":"cross"}',
        'joinType: unknown join "cross": expected one of left, inner, left_outer',
    ),
    "an unknown action": (
        '{"action":"delete"}',
        'action: unknown action "delete": expected one of apply, preview, rollback',
    ),
    "a rollback with a topic": (
        '{"action":"rollback","usersTopic":"u"}',
        "a rollback takes none of usersTopic, accountsTopic, joinType, start",
    ),
    "a rollback with a start": (
        '{"action":"rollback","start":"1h"}',
        "a rollback takes none of usersTopic, accountsTopic, joinType, start",
    ),
    "an id that is too long": (
        json.dumps({"id": "x" * 201}),
        "id: longer than 200 characters",
    ),
    "an id that is no text": ('{"id":"\\ud800"}', 'id: "\\ud800" is not valid Unicode'),
    "a generation in words": (
        '{"expectedGeneration":"7"}',
        'expectedGeneration: expected an integer, got "7"',
    ),
    "a part of a generation": (
        '{"expectedGeneration":7.0}',
        "expectedGeneration: expected an integer, got 7.0",
    ),
    "true is no generation": (
        '{"expectedGeneration":true}',
        "expectedGeneration: expected an integer, got true",
    ),
    "no start": ('{"start":"soon"}', f'{NO_START}"soon"'),
    "a start of the wrong type": ('{"start":3600}', f"{NO_START}3600"),
    "no start of a source": ('{"start":{"users":null}}', f"{NO_START}null"),
    "a start of an unknown source": (
        '{"start":{"orders":"1h"}}',
        'start: unknown source "orders": expected one of users, accounts',
    ),
}


@pytest.mark.parametrize("rule", REJECTED)
def test_an_invalid_message_is_rejected(rule: str) -> None:
    raw, reason = REJECTED[rule]
    assert _reason(raw) == reason


def test_eight_levels_are_not_too_deep() -> None:
    assert (
        _reason('{"id":' + "[" * 7 + "]" * 7 + "}") == "id: expected a string, got [[[[[[[]]]]]]]"
    )


def test_16_kib_are_not_too_large() -> None:
    raw = '{"joinType":"inner"' + " " * MAX_BYTES
    assert _read(raw[: MAX_BYTES - 1] + "}").join == "inner"


def test_an_id_of_the_maximum_length_is_accepted() -> None:
    assert _read(json.dumps({"id": "ä" * 200})).id == "ä" * 200


FORBIDDEN_TOPICS: dict[str, str] = {
    "control": "control is the control topic, it cannot be read as data",
    "livejoin.ledger": "livejoin.ledger is one of livejoin's own topics",
    "livejoin.logs": "livejoin.logs is one of livejoin's own topics",
    "livejoin.replies": "livejoin.replies is one of livejoin's own topics",
    "livejoin.leader": "livejoin.leader is one of livejoin's own topics",
    "livejoin.changelog.1": "livejoin.changelog.1 is one of livejoin's own topics",
    "livejoin.changelog.x": "livejoin.changelog.x is one of livejoin's own topics",
    "a,b": f'"a,b"{NO_NAME}',
    ".*": f'".*"{NO_NAME}',
    "../x": f'"../x"{NO_NAME}',
    ".": f'"."{NO_NAME}',
    "..": f'".."{NO_NAME}',
    "__consumer_offsets": f'"__consumer_offsets"{NO_NAME}',
    "users\nb": f'"users\\nb"{NO_NAME}',
    "bénutzer": f'"bénutzer"{NO_NAME}',
    "\ud800": f'"\\ud800"{NO_NAME}',
    "x" * 250: '"' + "x" * 79 + f"…{NO_NAME}",
}


@pytest.mark.parametrize("field", ["usersTopic", "accountsTopic"])
@pytest.mark.parametrize("topic", FORBIDDEN_TOPICS)
def test_a_forbidden_topic_is_rejected(topic: str, field: str) -> None:
    assert _reason(json.dumps({field: topic})) == f"{field}: {FORBIDDEN_TOPICS[topic]}"


@pytest.mark.parametrize("topic", ["u", "x" * 249, "_users", "a.b-c_d", "...", "livejoin.users"])
def test_an_allowed_topic_is_accepted(topic: str) -> None:
    assert _read(json.dumps({"usersTopic": topic})).topics["users"] == topic


@pytest.mark.parametrize("topic", ["", "a ", "users\n"])
def test_topic_names_are_not_trimmed(topic: str) -> None:
    assert not is_topic_name(topic)


def test_an_allow_list_rejects_all_other_topics() -> None:
    rules = replace(RULES, allowed=("users", "users_b"))
    assert _read('{"usersTopic":"users_b"}', rules).topics["users"] == "users_b"
    assert _reason('{"usersTopic":"users_c"}', rules) == (
        "usersTopic: users_c is not among the topics that the settings allow"
    )


def test_an_allow_list_does_not_permit_forbidden_topics() -> None:
    rules = replace(RULES, allowed=("control", "livejoin.logs"))
    assert (
        _reason('{"usersTopic":"control"}', rules) == f"usersTopic: {FORBIDDEN_TOPICS['control']}"
    )
    assert (
        _reason('{"usersTopic":"livejoin.logs"}', rules)
        == f"usersTopic: {FORBIDDEN_TOPICS['livejoin.logs']}"
    )


def test_omitted_fields_keep_their_value() -> None:
    choice = spec.DEFAULT.choice("u", "a", join="inner")
    assert Request().applied_to(choice) == choice
    assert Request({"users": "u2"}).applied_to(choice) == spec.DEFAULT.choice(
        "u2", "a", join="inner"
    )
    assert Request({"accounts": "a2"}, "left").applied_to(choice) == spec.DEFAULT.choice(
        "u", "a2", join="left"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("short", '"short"'),
        ("x" * 78, '"' + "x" * 78 + '"'),
        ("x" * 79, '"' + "x" * 79 + "…"),
        ("ä€😀", '"ä€😀"'),
        ("a\ud83d", '"a\\ud83d"'),
        ('say "no"', '"say \\"no\\""'),
    ],
)
def test_an_excerpt_is_one_short_line(value: str, text: str) -> None:
    assert excerpt(value) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(known_fields(spec.DEFAULT)) | st.text(), JSON, max_size=5))
def test_any_json_object_is_parsed_or_rejected_with_a_reason(fields: dict[str, Any]) -> None:
    reason, request = "", Request()
    try:
        request = _read(json.dumps(fields))
    except InvalidMessage as invalid:
        reason = str(invalid)
    assert bool(reason.encode()) or set(fields) & set(known_fields(spec.DEFAULT))
    assert all(is_topic_name(topic) for topic in request.topics.values())
    assert set(request.start) <= {"users", "accounts"}


@given(st.binary(max_size=60))
def test_bytes_without_a_known_field_are_rejected_with_a_reason(raw: bytes) -> None:
    try:
        known = set(json.loads(raw)) & set(known_fields(spec.DEFAULT))
    except (ValueError, TypeError):
        known = set()
    if not known:  # hypothesis may find a short valid message
        assert _reason(raw)
