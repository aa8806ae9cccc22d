import pytest

from livejoin.core.names import Names

NAMES = Names("mine")


def test_every_name_carries_the_prefix() -> None:
    made = [NAMES.changelog(7), NAMES.ledger, NAMES.logs, NAMES.group("tables")]
    assert made == ["mine.changelog.7", "mine.ledger", "mine.logs", "mine.tables"]


def test_names_of_one_prefix_differ() -> None:
    made = [NAMES.changelog(1), NAMES.changelog(11), NAMES.ledger, NAMES.logs]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("topic", [NAMES.changelog(1), NAMES.ledger, NAMES.logs])
def test_what_livejoin_makes_is_its_own(topic: str) -> None:
    assert NAMES.own(topic)


@pytest.mark.parametrize(
    "topic", ["mine", "mine.users", "users", "yours.ledger", "not.mine.ledger", "changelog.1"]
)
def test_other_topics_are_not(topic: str) -> None:
    assert not NAMES.own(topic)
