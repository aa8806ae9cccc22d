"""D3: malformed messages of a viewer change no table and close only that viewer's socket."""

import json
import random

from websockets.exceptions import ConnectionClosed

from livejoin.core import spec
from livejoin.tables.ingest.catalog import Catalog
from tables.auth_fixture import AuthFixture
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, final, live, user

SEED = 5
TALK = (
    '{"subscribe": ["final_ui"]}',
    '{"subscribe": ["final_ui"], "resume": {"generation": 1, "seq": 1}}',
    '{"upsert": [{"_id": "0-0", "name": "mine"}]}',
    '{"type": "data", "generation": 1, "seq": 9, "parts": []}',
    '{"remove": ["0-0"]}',
    "[1, 2, 3]",
    "null",
)


def _message(dice: random.Random) -> str | bytes:
    """Return an invalid message: damaged, invented, binary or long."""
    text = bytearray(dice.choice(TALK).encode())
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(text) + 1)
        text[at : at + dice.randrange(4)] = dice.randbytes(dice.randrange(5))
    kind = dice.random()
    if kind < 0.2:
        return bytes(text)
    if kind < 0.25:
        return len(text).to_bytes(4, "big") + bytes(text) + dice.randbytes(50)
    if kind < 0.3:
        return json.dumps({"subscribe": ["x" * dice.randrange(2000)] * dice.randrange(1, 20)})
    return text.decode(errors="replace")


def _hashes(server: RunningServer) -> dict[str, str]:
    found: dict[str, str] = {}
    server.run_on_loop(
        lambda catalog: found.update(
            {name: catalog.store(name).hash for name in spec.DEFAULT.tables}
        )
    )
    return found


def fuzz(count: int) -> None:
    """Send `count` messages to a server that another viewer watches."""
    print(f"seed {SEED}")
    dice, closed = random.Random(SEED), 0
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, user(0), final(0, "Ada")))
    auth = AuthFixture()
    headers = auth.bearer("viewer")
    # The other viewer buffers all frames meanwhile, and so answers the server's pings.
    patient = {"ping_interval": None, "max_queue": None}
    with (
        run_server(catalog, access=auth.access()) as server,
        server.viewer("final_ui", additional_headers=headers, **patient) as other,
    ):
        other.next_frame()
        before, left = _hashes(server), count
        while left:
            with server.viewer(additional_headers=headers) as viewer:
                try:
                    while left:
                        left -= 1
                        viewer.connection.send(_message(dice))
                        viewer.next_frame()
                except ConnectionClosed:
                    closed += 1
        assert _hashes(server) == before
        server.apply(1, 3, final(1, "Alan"))
        assert other.next_frame("data").kinds == [("final_ui", "upsert")]
        assert [row["name"] for row in other.view["final_ui"].values()] == ["Ada", "Alan"]
    assert closed > count / 4
