"""What a table server says of itself: its heartbeats, and whether its rows are stale."""

import json
from collections.abc import Iterator
from typing import Any

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from rig.protocol import Part, parse_frame
from rig.running import Running
from rig.watching import DATA

RECEIVE_S = 10


def frames(server: Running, **more: Any) -> Iterator[tuple[dict[str, Any], list[Part]]]:
    """Yield the frames of a subscription to the data tables."""
    address = server.url.replace("http", "ws") + "api/v1/live"
    protocols = [Subprotocol("livejoin.v1")]
    with connect(address, subprotocols=protocols, max_size=None, proxy=None) as socket:
        socket.send(json.dumps({"subscribe": DATA, **more}))
        while True:
            data = socket.recv(RECEIVE_S)
            assert isinstance(data, bytes)
            yield parse_frame(data)


def heartbeat(server: Running) -> dict[str, Any]:
    """Return the next heartbeat: generation, seq, and row count and hash of each data table."""
    header = next(header for header, _ in frames(server) if header["type"] == "heartbeat")
    # it may contain tables of other viewers too
    return {**header, "tables": {table: header["tables"][table] for table in DATA}}


def stale(server: Running) -> str:
    """Return why the rows are stale, or empty."""
    return str(server.request("api/v1/status")["stale"] or "")
