"""Mutated control messages; every one of them must get a reply."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from core import histories as h
from core.histories import after
from livejoin.core import spec
from livejoin.core.control_messages import known_fields
from livejoin.core.control_records import parse_record
from livejoin.core.decide import decide
from livejoin.core.facts import CaughtUp, Fact, MessageReceived, SourcesResolved, TopicInfo
from livejoin.core.spec import DEFAULT
from livejoin.core.state import LogLine, Reply, State

EXISTING = {"users": TopicInfo(1), "accounts": TopicInfo(1)}

VALID: tuple[dict[str, Any], ...] = (
    {"usersTopic": "users", "accountsTopic": "accounts", "joinType": "inner"},
    {"usersTopic": "accounts", "accountsTopic": "users"},
    {"joinType": "left_outer", "id": "7"},
    {"joinType": "left"},
    {"action": "rollback", "expectedGeneration": 1},
    {"action": "preview", "usersTopic": "users"},
    {"start": {"users": "1h"}, "id": "8"},
    {"start": "latest", "joinType": "natural"},
)
DEEP: list[Any] = []
for _ in range(50):
    DEEP = [DEEP]
HOSTILE: tuple[Any, ...] = (
    *("a,b", ".*", "../x", ".", "..", "", " ", "__consumer_offsets", "x" * 249, "x" * 250),
    *("control", "livejoin.ledger", "livejoin.logs", "livejoin.changelog.1", "livejoin.replies"),
    *("users", "accounts", "users_x", "USERS", "users\n", "users\0", "\ud800", "\udfff\ud800", "ü"),
    *("{}", '{"usersTopic":"users"}', "<img onerror=x>", "=HYPERLINK()", "\u202e", "null"),
    *("1h", "999999999w", "9999-12-31T23:59:59Z", "0001-01-01", "earliest", "crossjoin", "delete"),
    *(0, -1, 1, 2**63, 2**64, 10**400, 1.5, 1e308, True, False, None),
    *([], ["users"], {}, {"users": "1h"}, {"orders": "1h"}, {"users": None}, DEEP, "x" * 20_000),
)
NAMES = (
    *known_fields(spec.DEFAULT),
    "userstopic",
    "bootstrap.servers",
    "",
    "\ud800",
    "x" * 500,
    "start ",
)
# Text that json.dumps never writes.
RAW: tuple[bytes, ...] = (
    *(b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"01", b"+1", b"'users'", b"users"),
    *(b"[" * 3000, b'{"a":' * 1500, b'"\\u0000"', b'"\\ud83d"', b"\xff", b"\xed\xa0\x80", b"//"),
)


def _flip(random: Random, raw: bytes) -> bytes:
    at = random.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ 1 << random.randrange(8)]) + raw[at + 1 :]


def _cut(random: Random, raw: bytes) -> bytes:
    start, end = sorted((random.randrange(len(raw) + 1), random.randrange(len(raw) + 1)))
    return raw[start:end] if random.random() < 0.5 else raw[:start] + raw[end:]


def _insert(random: Random, raw: bytes) -> bytes:
    at = random.randrange(len(raw) + 1)
    return raw[:at] + random.choice((*RAW, b'"', b"{", b"}", b",", b"\\", b" ")) + raw[at:]


def _duplicate(random: Random, raw: bytes) -> bytes:
    return b'{"%s":"users",%s' % (random.choice(known_fields(spec.DEFAULT)).encode(), raw[1:])


def _wrap(random: Random, raw: bytes) -> bytes:
    text = raw.decode(errors="replace")
    return json.dumps(random.choice((text, [text], {"value": text}))).encode()


def _replace(random: Random, raw: bytes) -> bytes:
    """Replace a part of the text; the result may no longer be JSON."""
    return raw.replace(random.choice((b'"users"', b'"left"', b'"1h"', b"1")), random.choice(RAW))


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip,
    _flip,
    _cut,
    _insert,
    _duplicate,
    _wrap,
    _replace,
)


def mutated(random: Random) -> bytes:
    fields = dict(random.choice(VALID))
    for _ in range(random.randrange(3)):
        fields[random.choice(NAMES)] = random.choice(HOSTILE)
    raw = json.dumps(fields, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    for _ in range(random.choice((0, 0, 1, 1, 3))):
        raw = random.choice(MUTATIONS)(random, raw) or b" "
    return raw


BEFORE: dict[str, Sequence[Fact]] = {
    "first build": h.FIRST,
    "live": h.LIVE,
    "building": [*h.LIVE, h.received(0, joinType="inner")],
    "live with standby": [
        *h.LIVE,
        h.received(0, joinType="inner"),
        SourcesResolved(2, h.reading(DEFAULT.choice("users", "accounts", join="inner"))),
        CaughtUp(2, 5),
    ],
}


def _message_received(state: State, raw: bytes) -> MessageReceived:
    partition = len(raw) % 3
    offset = state.position.get(partition, 0)
    record = parse_record(partition, offset, 1000.0, "kafka", raw, h.RULES)
    names = record.request.topics.values() if record.request else ()
    topics = {name: EXISTING.get(name, f'topic "{name}" does not exist') for name in names}
    return MessageReceived(record.origin, record.request, record.error, topics)


def reply_to(before: State, fact: MessageReceived, after: State) -> Reply:
    items = after.outbox[len(before.outbox) :]
    replies = [item for item in items if isinstance(item, Reply)]
    (reply,) = [one for one in replies if replace(one.origin, read_order=None) == fact.origin]
    for item in items:
        match item:
            case Reply():
                assert json.dumps(
                    [item.control_raw_row(spec.DEFAULT), item.reply_record()], ensure_ascii=False
                ).encode()
            case LogLine():
                assert item.msg.encode()
    return reply


def _was_built(raw: bytes, before: State, after: State) -> bool:
    """Whether a build was started; if so, it reads existing topics and was requested in JSON."""
    if after.last_number == before.last_number:
        return False
    assert after.building is not None
    choice = after.building.choice
    assert set(choice.topics.values()) == set(EXISTING)
    assert set(json.loads(raw)) & set(known_fields(spec.DEFAULT))
    return True


def answered(count: int) -> None:
    """Generate messages, decide on each and check the reply."""
    random, outcomes, reasons = Random(6), Counter[str](), Counter[str]()
    states = [after(history) for history in BEFORE.values()]
    built = 0
    for number in range(count):
        raw = mutated(random)
        before = random.choice(states)
        try:
            fact = _message_received(before, raw)
            now = decide(before, fact)
            reply = reply_to(before, fact, now)
            built += _was_built(raw, before, now)
        except Exception as error:
            raise AssertionError(f"message {number} of seed 6: {raw!r}") from error
        outcomes[reply.outcome] += 1
        if reply.outcome == "rejected":
            assert reply.reason
            assert now.generations == before.generations
            reasons[_kind(reply.reason)] += 1
    assert outcomes.total() == count
    assert outcomes["rejected"] > count // 2
    assert built == outcomes["accepted"] > count // 20
    assert set(outcomes) == {"rejected", "accepted", "building", "live", "previewed"}
    # every kind of rejection occurred
    assert [kind for kind in KINDS if not reasons[kind]] == []
    assert reasons["another"] == 0


KINDS = (
    *(
        "expected a JSON object",
        "a string",
        "empty",
        "not UTF-8",
        "not valid JSON",
        "is not a JSON number",
        "a number is too long",
    ),
    *("nested more than", "larger than", "duplicate key"),
    *("JSON inside a string", "no known field", "expected a string", "is not a topic name"),
    *("is the control topic", "one of livejoin's own", "does not exist", "they must differ"),
    *("unknown join", "unknown action", "unknown source", "a rollback takes none", "is on standby"),
    *("longer than 200", "is not valid Unicode", "expected an integer", "expected earliest"),
    *("but generation 1 is live", "but generation 2 is live", "but nothing is live"),
)


def _kind(reason: str) -> str:
    """Kind of a rejection: the last one that matches, since the first ones are general."""
    return next((kind for kind in reversed(KINDS) if kind in reason), "another")
