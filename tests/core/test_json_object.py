"""Anything but a JSON object is parsed as None."""

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
def test_only_json_objects_are_parsed(data: bytes | str, expected: dict[str, Any] | None) -> None:
    assert parse_object(data) == expected
