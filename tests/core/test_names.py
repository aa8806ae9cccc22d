import pytest

from livejoin.core.names import Names

NAMES = Names("mine")
MADE = {
    NAMES.changelog(7): "mine.changelog.7",
    NAMES.bootstrap(7): "mine.feed.7",
    NAMES.ledger: "mine.ledger",
    NAMES.logs: "mine.logs",
    NAMES.replies: "mine.replies",
    NAMES.leader: "mine.leader",
    NAMES.tokens: "mine.tokens",
    NAMES.audit: "mine.audit",
    NAMES.access: "mine.access",
}


def test_every_name_carries_the_prefix() -> None:
    assert list(MADE) == list(MADE.values())
    assert NAMES.group("tables") == "mine.tables"


def test_names_of_one_prefix_differ() -> None:
    made = [NAMES.changelog(1), NAMES.changelog(11), NAMES.bootstrap(1), *MADE]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("topic", MADE)
def test_what_livejoin_makes_is_its_own(topic: str) -> None:
    assert NAMES.is_own(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "mine",
        "mine.users",
        "users",
        "yours.ledger",
        "not.mine.ledger",
        "changelog.1",
        "mine.ledgers",
        "mine.replies.users",
    ],
)
def test_other_topics_are_not(topic: str) -> None:
    assert not NAMES.is_own(topic)


@pytest.mark.parametrize("number", [1, 10, 12345])
def test_a_changelog_and_a_feed_tell_their_generation(number: int) -> None:
    assert NAMES.generation_of(NAMES.changelog(number)) == number
    assert NAMES.generation_of(NAMES.bootstrap(number)) == number


@pytest.mark.parametrize(
    "topic",
    [
        "mine.changelog.",
        "mine.changelog.x",
        "mine.feed.",
        "mine.feed.x",
        "mine.changelog.mine.feed.1",
        "mine.changelog.-1",
        "mine.changelog.1.2",
        "mine.logs",
        "yours.changelog.1",
        "1",
    ],
)
def test_other_topics_are_the_generation_of_no_generation(topic: str) -> None:
    assert NAMES.generation_of(topic) is None
