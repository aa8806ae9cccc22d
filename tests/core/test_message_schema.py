"""The JSON Schema accepts what the core accepts."""

import re

import pytest

from livejoin.core import spec
from livejoin.core.control_messages import is_topic_name, known_fields, message_schema


def test_exactly_the_known_fields_are_described() -> None:
    assert set(message_schema(spec.DEFAULT)["properties"]) == set(known_fields(spec.DEFAULT))


@pytest.mark.parametrize(
    "name", ["users", "a.b-c_d", "_x", "x" * 249, "__x", "a,b", ".*", "../x", "x" * 250, "a b"]
)
def test_the_schema_accepts_the_same_topic_names_as_the_core(name: str) -> None:
    pattern = message_schema(spec.DEFAULT)["properties"]["usersTopic"]["pattern"]
    assert bool(re.search(pattern, name)) == is_topic_name(name)


@pytest.mark.parametrize("name", ["", " ", " users\n"])
def test_the_schema_accepts_blank_and_padded_names(name: str) -> None:
    assert re.search(message_schema(spec.DEFAULT)["properties"]["usersTopic"]["pattern"], name)
