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


def _hashes(shown: RunningServer) -> dict[str, str]:
    found: dict[str, str] = {}
    shown.run_on_loop(
        lambda host: found.update({name: host.store(name).hash for name in spec.TABLES})
    )
    return found


def fuzz(count: int) -> None:
    """Send `count` messages to a server that another viewer watches."""
    print(f"seed {SEED}")
    dice, sent_away = random.Random(SEED), 0
    host = Catalog(logs_kept=100, rejects_kept=100)
    host.apply_state(live(1))
    host.apply(chunk(1, 2, user(0), final(0, "Ada")))
    door = AuthFixture()
    headers = door.bearer("viewer")
    # The other viewer buffers all frames meanwhile, and so answers the server's pings.
    patient = {"ping_interval": None, "max_queue": None}
    with (
        run_server(host, access=door.access()) as shown,
        shown.viewer("final_ui", additional_headers=headers, **patient) as other,
    ):
        other.next_frame()
        before, left = _hashes(shown), count
        while left:
            with shown.viewer(additional_headers=headers) as viewer:
                try:
                    while left:
                        left -= 1
                        viewer.connection.send(_message(dice))
                        viewer.next_frame()
                except ConnectionClosed:
                    sent_away += 1
        assert _hashes(shown) == before
        shown.apply(1, 3, final(1, "Alan"))
        assert other.next_frame("data").kinds == [("final_ui", "upsert")]
        assert [row["name"] for row in other.view["final_ui"].values()] == ["Ada", "Alan"]
    assert sent_away > count / 4
