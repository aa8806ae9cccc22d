import pytest

from livejoin.core import spec
from livejoin.core.control_messages import known_fields
from livejoin.core.names import nearest


@pytest.mark.parametrize(
    ("word", "expected"),
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
def test_the_nearest_name_is_suggested(word: str, expected: str) -> None:
    assert nearest(word, known_fields(spec.DEFAULT)) == expected


@pytest.mark.parametrize("word", ["", "bootstrap", "\ud800", "x" * 10_000, "сервер"])
def test_an_unrelated_word_has_no_suggestion(word: str) -> None:
    assert nearest(word, known_fields(spec.DEFAULT)) == ""


def test_without_candidates_there_is_no_suggestion() -> None:
    assert nearest("usersTopic", []) == ""


def test_the_nearest_of_several_is_suggested() -> None:
    assert nearest("users_bb", ["users", "users_b", "accounts_b"]) == "users_b"
