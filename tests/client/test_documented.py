"""The Python examples of the documentation, run against a real table server."""

import json
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from livejoin import client
from livejoin.client import async_connection, connection
from livejoin.tables.http.control_requests import ControlProducer
from rig.python_examples import ROOT, Example, examples
from tables.live_server import RunningServer
from tables.samples import final, live

TEXT = (ROOT / "docs" / "python-client.md").read_text()
EXAMPLES = examples()
PRINTED = {  # by page and number
    "README.md:1": r"2 rows, the first: \{'userId': .*\}\n",
    "docs/python-client.md:1": r"2 of 2\n1 fresh\n",
    "docs/python-client.md:2": "",
    "docs/python-client.md:3": r"generation 2\nlive 2\n",
    "docs/python-client.md:4": r"snapshot 2\nstarting\n",
    "docs/tutorial.md:1": r"2 rows of generation 1\nlive 2\n1 rows of generation 2\n",
}


@pytest.fixture
def swaps(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that accepts everything at once."""

    async def send(_: ControlProducer, raw: bytes, _by: str) -> dict[str, Any]:
        is_rollback = json.loads(raw).get("action") == "rollback"
        new, old = (1, 2) if is_rollback else (2, 1)
        state = replace(live(new, ready_at=1), standby=live(old).live)

        def switch() -> None:
            if not is_rollback:
                server.follow(live(1, next_one=2))
                server.apply(2, 1, final(0, "Grace"))
            server.follow(state)

        threading.Thread(target=switch).start()
        return {"partition": 0, "offset": 1, "outcome": "live", "reason": None, "generation": new}

    async def preview(_: ControlProducer, _raw: bytes) -> dict[str, Any]:
        return {"outcome": "accepted", "build": "generation 2"}

    monkeypatch.setattr(ControlProducer, "send", send)
    monkeypatch.setattr(ControlProducer, "preview", preview)


@pytest.mark.usefixtures("swaps")
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_runs_as_written(
    example: Example,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.apply(1, 3, final(1, "Alan"))
    monkeypatch.setenv("LIVEJOIN_URL", f"http://127.0.0.1:{server.port}/")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(example.text, names)
    assert re.fullmatch(PRINTED[str(example)], capsys.readouterr().out)
    if "held" in names:
        assert sorted(row["name"] for row in names["held"].values()) == ["Ada", "Alan"]
    if str(example) == "docs/python-client.md:3":
        assert names["rows"].column("name").to_pylist() == ["Grace"]


def test_every_example_is_expected_to_print_something() -> None:
    assert {str(example) for example in EXAMPLES} == set(PRINTED)


def test_the_public_api_is_documented() -> None:
    public = {
        name
        for kind in (client.Connection, client.Table, client.AsyncConnection, client.AsyncTable)
        for name in vars(kind)
        if not name.startswith("_")
    } - {"close", "whole"}
    assert [name for name in sorted(public) if name not in TEXT] == []


def test_both_kinds_of_connection_have_the_same_api() -> None:
    for one, other in (
        (connection.Connection, async_connection.AsyncConnection),
        (connection.Table, async_connection.AsyncTable),
    ):
        assert {n for n in vars(one) if n[0] != "_"} == {n for n in vars(other) if n[0] != "_"}
