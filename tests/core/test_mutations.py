"""Control messages that somebody tampered with: each is answered, none reads what it must not."""

from collections.abc import Iterator

from core import histories as h
from core.mutations import answered, reply_to
from livejoin.core.decide import decide
from livejoin.core.facts import TopicInfo
from livejoin.core.spec import Choice

COUNT = 25_000  # a quarter of what `make faults` tries
NAMED = ("a,b", ".*", "../x", "__consumer_offsets", "control", "livejoin.changelog.1", "x" * 250)


def test_no_message_is_too_bad_to_be_answered() -> None:
    answered(COUNT)


def _names() -> Iterator[tuple[str, str]]:
    for field in ("usersTopic", "accountsTopic"):
        for name in NAMED:
            yield field, name


def test_no_name_that_is_none_is_ever_read() -> None:
    state = h.after(h.LIVE)
    for field, name in _names():
        fact = h.received(0, {name: TopicInfo(1)}, **{field: name})  # even where Kafka has it
        now = decide(state, fact)
        assert reply_to(state, fact, now).outcome == "rejected"
        assert now.generations == state.generations


def test_a_good_message_gets_through() -> None:
    # or else all that the rest proves is that nothing does
    state = h.after(h.LIVE)
    fact = h.received_choice(0, Choice(h.A.accounts, h.A.users))
    assert reply_to(state, fact, decide(state, fact)).outcome == "accepted"
