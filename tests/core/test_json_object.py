"""What is no JSON object is None, whatever is wrong with it."""

from typing import Any

import pytest

from livejoin.core.json_object import parse_object


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": 1}', {"a": 1}),
        (' {"a": "ä"} ', {"a": "ä"}),
        (b"{}", {}),
        (b"", None),
        ("", None),
        (b"\xff", None),
        (b'{"a": ', None),
        (b"[1]", None),
        (b"null", None),
        (b'"{}"', None),
        (b"7", None),
        (b'{"a": ' + b"9" * 5000 + b"}", None),
        (b'{"a": ' + b"[" * 100_000, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_object_is_parsed_and_anything_else_is_none(
    data: bytes | str, expected: dict[str, Any] | None
) -> None:
    assert parse_object(data) == expected
