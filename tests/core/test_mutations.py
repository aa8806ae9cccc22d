"""Mutated control messages: each gets a reply, and none reads a forbidden topic."""

from collections.abc import Iterator
from typing import Any

from core import histories as h
from core.mutations import answered, reply_to
from livejoin.core.decide import decide
from livejoin.core.facts import TopicInfo
from livejoin.core.spec import DEFAULT

COUNT = 25_000  # a quarter of what `make faults` tries
INVALID_NAMES = (
    "a,b",
    ".*",
    "../x",
    "__consumer_offsets",
    "control",
    "livejoin.changelog.1",
    "x" * 250,
)


def test_every_mutated_message_gets_a_reply() -> None:
    answered(COUNT)


def _invalid_fields() -> Iterator[tuple[str, str]]:
    for field in ("usersTopic", "accountsTopic"):
        for name in INVALID_NAMES:
            yield field, name


def test_an_invalid_topic_name_is_never_read() -> None:
    state = h.after(h.LIVE)
    for field, name in _invalid_fields():
        fields: dict[str, Any] = {field: name}
        fact = h.received(0, {name: TopicInfo(1)}, **fields)  # even if the topic exists
        now = decide(state, fact)
        assert reply_to(state, fact, now).outcome == "rejected"
        assert now.generations == state.generations


def test_a_valid_message_is_accepted() -> None:
    # otherwise the tests above would pass if every message were rejected
    state = h.after(h.LIVE)
    fact = h.received_choice(0, DEFAULT.choice(h.A.topics["accounts"], h.A.topics["users"]))
    assert reply_to(state, fact, decide(state, fact)).outcome == "accepted"
