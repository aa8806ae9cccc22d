"""The live protocol as documented: test vectors for other clients, and a second implementation.

`python tests/tables/live/test_protocol.py` writes the vectors again.
"""

import base64
import json
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.arrow_schema import as_json
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.store import Store
from livejoin.tables.live import frames
from livejoin.tables.live import socket as live_socket
from rig.protocol import Replica, table_hash
from tables import orders
from tables.live_server import RunningServer, run_server
from tables.samples import DATA_TABLES, DECODER, SCHEMAS, chunk, final, live, user

DOCS = Path(__file__).parents[3] / "docs"
VECTORS = DOCS / "live-protocol-vectors.json"
OTHER_SOURCES = DOCS / "live-protocol-other-sources-vectors.json"
SEED = 11

# --- vectors


class VectorServer:
    """Frames of a server with a stopped clock."""

    def __init__(self, *tables: str) -> None:
        self.decoder = DECODER
        self.stores = {name: Store(SCHEMAS[name]) for name in tables}
        self.frames: list[dict[str, Any]] = []

    def frame(self, kind: str, seq: int, parts: list[frames.EncodedPart], **more: Any) -> None:
        """Add one frame and the tables of a client after it."""
        at = 1_700_000_000_000 + seq
        header = {"type": kind, "generation": 7, "seq": seq, "at": at, **more}
        data = frames.encode_frame(header, parts)
        tables = {
            name: {"hash": store.hash, "rows": _plain(store.snapshot())}
            for name, store in self.stores.items()
        }
        expected_header = {**header, "parts": [{"table": p.table, "kind": p.kind} for p in parts]}
        self.frames.append(
            {"frame": base64.b64encode(data).decode(), "header": expected_header, "tables": tables}
        )

    def change(self, seq: int, *changes: ChangelogRecord) -> list[frames.EncodedPart]:
        """Apply changes and return the parts that carry them."""
        parts = []
        for name, store in self.stores.items():
            own_changes = [c for c in changes if c.table == name]
            if not own_changes:
                continue
            records = self.decoder.tables[name].decode_records(
                [c.id for c in own_changes], [c.value() for c in own_changes]
            )
            delta = store.apply(records, seq)
            parts += frames.encode_changes(name, delta.upserts, delta.removed)
        return parts

    def snapshots(self) -> list[frames.EncodedPart]:
        """A snapshot part of each table."""
        return [
            frames.encode_rows(n, "snapshot", store.snapshot()) for n, store in self.stores.items()
        ]

    def heartbeat(self, seq: int) -> None:
        """A heartbeat."""
        tables = {n: {"rows": len(s), "hash": s.hash} for n, s in self.stores.items()}
        self.frame("heartbeat", seq, [], newest=1_700_000_000_000, stale=None, tables=tables)


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = as_json(table).to_pylist()
    return rows


def vectors() -> list[dict[str, Any]]:
    """Frames in the order in which a client gets them."""
    server = VectorServer("users_ui", "final_ui")
    big = {"userId": "ü", "name": None, "email": "", "age": 9007199254740993}
    joined = {**big, "accountType": "checking", "balance": -0.0025}
    server.change(2, user(0), ChangelogRecord("users_ui", "1-0", big, 1_700_000_000_001))
    server.frame("data", 2, server.snapshots())
    server.heartbeat(2)
    changed = ChangelogRecord("final_ui", "1-0", joined, 1_700_000_000_002, (5, 0, 1))
    server.frame("data", 4, server.change(4, final(0, "Ada"), changed))
    server.frame("data", 5, server.change(5, final(0, "Ada L.", 2), final(1, "Alan")))
    server.frame("data", 6, server.change(6, final(1, None, 3)))
    server.heartbeat(6)
    server.frame("data", 8, server.change(8, user(2), final(0, "Ada K.", 9)), resumed=True)
    server.heartbeat(8)
    server.stores["users_ui"] = Store(SCHEMAS["users_ui"])
    server.frame("cutover", 9, server.snapshots())
    server.heartbeat(9)
    return server.frames


def vectors_of_other_sources() -> list[dict[str, Any]]:
    """Frames of a subscription that waits for `orders_ui`, which comes instead of `users_ui`."""
    server = VectorServer("users_ui")
    server.change(1, user(0))
    server.frame("data", 1, server.snapshots(), gone=["orders_ui"])
    server.heartbeat(1)
    server.decoder = orders.DECODER
    server.stores = {"orders_ui": Store(orders.DECODER.tables["orders_ui"].schema)}
    server.change(2, orders.order(0), orders.order(1, total="-0.01", at=-1, paid=False))
    server.frame("cutover", 2, server.snapshots(), gone=["users_ui"])
    nothing = dict.fromkeys(("total", "at", "paid"))
    changed = server.change(3, orders.order(2, **nothing), orders.order(3, total="9999999999.99"))
    server.frame("data", 3, changed)
    server.heartbeat(3)
    return server.frames


BOTH = pytest.mark.parametrize(
    ("make", "file"),
    [(vectors, VECTORS), (vectors_of_other_sources, OTHER_SOURCES)],
    ids=["default sources", "other sources"],
)


@BOTH
def test_the_documented_vectors_are_those_of_this_server(
    make: Callable[[], list[dict[str, Any]]], file: Path
) -> None:
    current, documented = make(), json.loads(file.read_text())
    # the Arrow layout may differ between versions; the content may not
    for vector in (*current, *documented):
        vector.pop("frame")
    assert current == documented


@BOTH
def test_the_second_implementation_arrives_at_the_tables_of_the_vectors(
    make: Callable[[], list[dict[str, Any]]], file: Path
) -> None:
    replica = Replica()
    for vector in json.loads(file.read_text()):
        header = replica.on_frame(base64.b64decode(vector["frame"]))
        told = {k: v for k, v in header.items() if k not in ("parts", "format")}
        assert told == {k: v for k, v in vector["header"].items() if k != "parts"}
        assert replica.tables.keys() == vector["tables"].keys()
        for name, tables in vector["tables"].items():
            rows = [_texts(row) for row in replica.tables[name].values()]
            assert rows == tables["rows"]
            assert table_hash(replica.tables[name].values()) == tables["hash"]
    heartbeats = [vector for vector in make() if vector["header"]["type"] == "heartbeat"]
    assert replica.checked == len(heartbeats) > 1


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    """Decimals as text, as the vectors have them."""
    return {name: f"{cell:f}" if isinstance(cell, Decimal) else cell for name, cell in row.items()}


# --- against the real server


@pytest.mark.usefixtures("fast_heartbeats")
def test_the_second_implementation_matches_every_heartbeat_over_changes_swaps_and_resumes() -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    replica, resumed = Replica(), 0
    with run_server(catalog) as server:
        generation, seq = 1, 0
        for round_ in range(12):
            if round_ in (4, 8):  # a swap while nobody is connected
                generation, seq = generation + 1, 0
                server.follow(live(generation))
            seq = _change(server, generation, seq, dice)
            with server.viewer() as viewer:
                message: dict[str, Any] = {"subscribe": list(DATA_TABLES)}
                if round_:
                    message["resume"] = replica.resume
                viewer.connection.send(json.dumps(message))
                before = replica.checked
                while replica.checked < before + 2 or replica.header["seq"] < seq:
                    if replica.checked == before + 1 and replica.header["seq"] == seq:
                        seq = _change(server, generation, seq, dice)
                    frame = viewer.connection.recv(timeout=20)
                    assert isinstance(frame, bytes)
                    resumed += replica.on_frame(frame).get("resumed", False)
    assert resumed >= 5


def _change(server: RunningServer, generation: int, seq: int, dice: random.Random) -> int:
    for _ in range(dice.randrange(1, 30)):
        seq += 1
        number, name = dice.randrange(60), f"name {seq}" if dice.random() < 0.8 else None
        change = user(seq) if dice.random() < 0.3 else final(number, name, dice.randrange(seq + 5))
        server.run_on_loop(lambda catalog, c=change, s=seq: catalog.apply(chunk(generation, s, c)))  # type: ignore[misc]
    return seq


@pytest.fixture
def fast_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)


if __name__ == "__main__":
    for path, found in ((VECTORS, vectors()), (OTHER_SOURCES, vectors_of_other_sources())):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    sys.exit(0)
