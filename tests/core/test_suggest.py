import pytest

from livejoin.core.control_messages import FIELDS
from livejoin.core.names import nearest


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("userstopic", "usersTopic"),
        ("users_topic", "usersTopic"),
        ("USERSTOPIC", "usersTopic"),
        ("accountTopic", "accountsTopic"),
        ("join", "joinType"),
        ("expected", "expectedGeneration"),
        ("usersTopic", "usersTopic"),
    ],
)
def test_what_somebody_probably_meant(word: str, meant: str) -> None:
    assert nearest(word, FIELDS) == meant


@pytest.mark.parametrize("word", ["", "bootstrap", "\ud800", "x" * 10_000, "сервер"])
def test_what_is_like_nothing_means_nothing(word: str) -> None:
    assert nearest(word, FIELDS) == ""


def test_nothing_is_near_where_nothing_is_known() -> None:
    assert nearest("usersTopic", []) == ""


def test_the_nearest_of_several_is_meant() -> None:
    assert nearest("users_bb", ["users", "users_b", "accounts_b"]) == "users_b"
