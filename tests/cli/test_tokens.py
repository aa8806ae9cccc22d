"""`livejoin token list`: what it says of each token."""

from dataclasses import replace

import pytest

from livejoin.cli import tokens
from livejoin.core.tokens import CONSOLE, EndedSessions, Token

TOKEN = Token("00c0ffee", "viewer", "wall", "hash", 1_700_000_000)


@pytest.mark.parametrize(
    ("token", "state"),
    [
        (TOKEN, "valid"),
        (TOKEN.as_revoked(), "revoked"),
        (replace(TOKEN, expires_at=1_700_000_001), "expired"),
        (replace(TOKEN, format=2), "unsupported"),
    ],
)
def test_a_token_is_listed_with_its_state(token: Token, state: str) -> None:
    row = tokens._token_row(token)
    assert (row["id"], row["state"], row["made"]) == ("00c0ffee", state, "2023-11-14T22:13:20Z")


def test_the_console_is_listed_as_valid_until_it_is_revoked() -> None:
    ended = EndedSessions()
    assert tokens._console_row(ended)["state"] == "valid"
    ended.identities[CONSOLE] = 1_700_000_000
    assert tokens._console_row(ended)["state"] == "revoked before 2023-11-14T22:13:20Z"
