"""The JSON Schema accepts what the core accepts."""

import re

import pytest

from livejoin.core.control_messages import FIELDS, MESSAGE_SCHEMA, is_topic_name


def test_exactly_the_known_fields_are_described() -> None:
    assert set(MESSAGE_SCHEMA["properties"]) == set(FIELDS)


@pytest.mark.parametrize(
    "name", ["users", "a.b-c_d", "_x", "x" * 249, "__x", "a,b", ".*", "../x", "x" * 250, "a b"]
)
def test_the_schema_accepts_the_same_topic_names_as_the_core(name: str) -> None:
    pattern = MESSAGE_SCHEMA["properties"]["usersTopic"]["pattern"]
    assert bool(re.search(pattern, name)) == is_topic_name(name)


@pytest.mark.parametrize("name", ["", " ", " users\n"])
def test_the_schema_accepts_blank_and_padded_names(name: str) -> None:
    assert re.search(MESSAGE_SCHEMA["properties"]["usersTopic"]["pattern"], name)
