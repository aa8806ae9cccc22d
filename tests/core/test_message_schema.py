"""The JSON Schema says what the core takes."""

import re

import pytest

from livejoin.core.control_messages import FIELDS, MESSAGE_SCHEMA, is_topic_name


def test_every_field_is_described_and_no_other() -> None:
    assert set(MESSAGE_SCHEMA["properties"]) == set(FIELDS)


@pytest.mark.parametrize(
    "name", ["users", "a.b-c_d", "_x", "x" * 249, "__x", "a,b", ".*", "../x", "x" * 250, "a b"]
)
def test_it_takes_the_names_that_the_core_takes(name: str) -> None:
    pattern = MESSAGE_SCHEMA["properties"]["usersTopic"]["pattern"]
    assert bool(re.search(pattern, name)) == is_topic_name(name)


@pytest.mark.parametrize("name", ["", " ", " users\n"])
def test_it_takes_what_is_blank_or_trimmed(name: str) -> None:
    assert re.search(MESSAGE_SCHEMA["properties"]["usersTopic"]["pattern"], name)
