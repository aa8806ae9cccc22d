import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from livejoin.core import start_position, tokens
from livejoin.core.tokens import Token

TEXT = "lj_00c0ffee_secret"
TOKEN = Token("00c0ffee", "viewer", "wall", tokens.hash_token(TEXT), 1000)


@pytest.mark.parametrize(
    ("role", "needed", "may"),
    [
        ("viewer", "viewer", True),
        ("viewer", "operator", False),
        ("operator", "viewer", True),
        ("operator", "operator", True),
    ],
)
def test_an_operator_is_also_a_viewer(role: tokens.Role, needed: tokens.Role, may: bool) -> None:  # noqa: FBT001
    assert tokens.role_includes(role, needed) is may


def test_a_token_is_found_by_its_id_and_verified_by_its_hash() -> None:
    known = {TOKEN.id: TOKEN}
    assert tokens.find_token(TEXT, known) is TOKEN
    for other in (
        "",
        "lj",
        "lj_00c0ffee",
        f"{TEXT}x",
        TEXT[:-1],
        "lj_other_secret",
        "xx_00c0ffee_",
    ):
        assert tokens.find_token(other, known) is None
    assert tokens.find_token(TOKEN.hash, known) is None
    assert tokens.find_token(f"lj_00c0ffee_{TOKEN.hash}", known) is None
    assert tokens.find_token("lj_00c0ffee_\ud800", known) is None


def test_the_stored_record_does_not_contain_the_secret() -> None:
    assert "secret" not in TOKEN.to_json().decode()
    assert "secret" not in repr(TOKEN)


@pytest.mark.parametrize(
    ("token", "now", "state", "why"),
    [
        (TOKEN, 1e12, "valid", ""),
        (TOKEN.as_revoked(), 0, "revoked", "it was revoked"),
        (replace(TOKEN, expires_at=2000), 1999, "valid", ""),
        (replace(TOKEN, expires_at=2000), 2000, "expired", "it has expired"),
    ],
)
def test_a_token_is_valid_until_it_expires_or_is_revoked(
    token: Token, now: float, state: str, why: str
) -> None:
    assert token.state(now) == state
    assert token.invalid_reason(now) == why


@pytest.mark.parametrize("token", [TOKEN, replace(TOKEN, expires_at=5), TOKEN.as_revoked()])
def test_a_token_round_trips(token: Token) -> None:
    assert tokens.from_json(token.to_json()) == token


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "root"},
        {"role": []},
        {"id": 5},
        {"label": None},
        {"hash": None},
        {"made_at": "x"},
        {"expires_at": "never"},
        {"revoked": 0},
        {"more": 1},
    ],
)
def test_a_record_with_a_wrong_field_is_none(wrong: dict[str, Any]) -> None:
    assert tokens.from_json(json.dumps({**asdict(TOKEN), **wrong}).encode()) is None


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_malformed_record_is_none(raw: bytes) -> None:
    assert tokens.from_json(raw) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2_592_000), (" 12 H ", 43_200), ("0s", 0), ("x", None), ("", None)],
)
def test_an_age_in_seconds(text: str, seconds: float | None) -> None:
    assert start_position.age_seconds(text) == seconds


def test_a_token_of_a_newer_format_is_found_by_its_id_and_invalid() -> None:
    newer = tokens.from_json(b'{"format": 2, "scopes": [["read"]]}', "00c0ffee")
    assert newer is not None
    assert newer.state(0) == "unsupported"
    assert newer.invalid_reason(0) == "it has format 2, this livejoin knows up to 1"
    assert tokens.find_token(TEXT, {"00c0ffee": newer, "1": TOKEN}) == newer
    assert tokens.from_json(b'{"format": "x"}', "1") == Token("1", "viewer", "", "", 0, format=0)


def test_format_1_is_written_without_a_format_number() -> None:
    assert "format" not in json.loads(TOKEN.to_json())
    assert tokens.from_json(json.dumps({**asdict(TOKEN), "format": 1}).encode()) == TOKEN
