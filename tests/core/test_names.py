import pytest

from livejoin.core.names import Names

NAMES = Names("mine")
OWN_TOPICS = {
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


def test_every_topic_name_has_the_prefix() -> None:
    assert list(OWN_TOPICS) == list(OWN_TOPICS.values())
    assert NAMES.group("tables") == "mine.tables"


def test_topic_names_are_unique() -> None:
    names = [NAMES.changelog(1), NAMES.changelog(11), NAMES.bootstrap(1), *OWN_TOPICS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("topic", OWN_TOPICS)
def test_livejoins_topics_are_its_own(topic: str) -> None:
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
def test_other_topics_are_not_livejoins_own(topic: str) -> None:
    assert not NAMES.is_own(topic)


@pytest.mark.parametrize("number", [1, 10, 12345])
def test_generation_of_a_changelog_or_bootstrap_topic(number: int) -> None:
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
def test_other_topics_have_no_generation(topic: str) -> None:
    assert NAMES.generation_of(topic) is None
