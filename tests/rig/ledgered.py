"""A fake leader: ledger and changelogs written by the test, served by a real `livejoin serve`.

Tests the table server alone, with any number of rows, swaps and viewers.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from livejoin.core import changelog, spec
from livejoin.core.generation import Generation, Reading
from livejoin.core.ledger_format import to_json
from livejoin.core.names import Names
from livejoin.core.state import STATE_KEY, STATUS_KEY, State
from livejoin.kafka.cluster import Kafka
from rig.protocol import header
from rig.running import Running, running

SUBPROTOCOL = Subprotocol("livejoin.v1")
DATA = ("users_ui", "accounts_ui", "final_ui")


class FakeLeader:
    """Writes the ledger and changelogs of a livejoin that has no real leader."""

    def __init__(self, kafka: Kafka, folder: Path, name: str, *, led: bool = True) -> None:
        self.kafka = kafka
        self._folder = folder
        self._name = name
        self._names = Names(name)
        self._producer = kafka.producer(
            **{"linger.ms": 0, "queue.buffering.max.messages": 2_000_000}
        )
        kafka.create_topic(self._names.ledger, {"cleanup.policy": "compact"})
        kafka.create_topic(self._names.logs)
        if led:  # a server waits for all three topics
            kafka.create_topic(self._names.leader)
        self.ends: dict[int, int] = {}

    def write_generation(self, number: int, count: int, tables: Sequence[str] = DATA) -> Generation:
        """Write a changelog with `count` rows in each of these tables."""
        topic = self._names.changelog(number)
        self.kafka.create_topic(topic, {"cleanup.policy": "compact"})
        for n in range(count):
            for table in tables:
                self.write(number, row(table, n, f"generation {number}"))
        self.flush()
        return self.generation_entry(number)

    def generation_entry(self, number: int) -> Generation:
        """Return a generation as the ledger has it, ready at what was written so far."""
        reading = {s.name: Reading(s.name, "", {0: 0}, {0: -1}) for s in spec.DEFAULT.sources}
        choice = spec.DEFAULT.choice("users", "accounts")
        return Generation(number, choice, 0.0, sources=reading, ready_at=self.ends.get(number, 0))

    def write(self, number: int, change: changelog.ChangelogRecord) -> None:
        """Write one record to a changelog."""
        topic = self._names.changelog(number)
        while True:
            try:
                self._producer.produce(topic, change.value(), change.key())
            except BufferError:
                self._producer.poll(0.1)
            else:
                self.ends[number] = self.ends.get(number, 0) + 1
                return

    def flush(self) -> None:
        """Wait until all records are written."""
        assert self._producer.flush(120) == 0

    def set_live(self, live: Generation, standby: Generation | None = None) -> None:
        """Write to the ledger what is live, as a leader would."""
        state = State(last_number=live.number, live=live, standby=standby)
        status = {"state": "live", "generation": live.number, "message": ""}
        for key, value in ((STATE_KEY, to_json(state)), (STATUS_KEY, status)):
            self._producer.produce(self._names.ledger, json.dumps(value), key)
        self.flush()

    @contextlib.contextmanager
    def server(self, **settings: Any) -> Iterator[Running]:
        """Run a table server."""
        folder = self._folder / f"serve-{time.monotonic_ns()}"
        settings = {"viewer_rows": 10**9, **settings}
        with running(self.kafka, folder, command="serve", name=self._name, **settings) as server:
            server.wait_live()
            yield server


def row(
    table: str, number: int, text: str, version: int | None = None
) -> changelog.ChangelogRecord:
    """A row of a data table."""
    cells: dict[str, Any] = {"userId": f"u{number}"}
    if table != "accounts_ui":
        cells |= {"name": f"Name {number}, {text}", "email": f"{number}@x.org", "age": number % 90}
    if table != "users_ui":
        cells |= {"accountType": "checking", "balance": number / 4}
    at = None if version is None else (version, 0, 0)
    return changelog.ChangelogRecord(table, f"0-{number}", cells, 1_700_000_000_000 + number, at)


class Audience:
    """Viewers in one event loop; each records when each part of the changelog arrived."""

    def __init__(self, server: Running) -> None:
        self._headers = server.headers
        self._uri = server.url.replace("http", "ws") + "api/v1/live"
        self.arrivals: list[list[tuple[int, float]]] = []  # by viewer: seq and time
        self.sockets: list[ClientConnection] = []

    async def join(self, count: int, tables: tuple[str, ...]) -> None:
        """Connect `count` viewers, and wait until each has its snapshot."""
        for start in range(0, count, 50):
            await asyncio.gather(*(self._connect(tables) for _ in range(min(50, count - start))))

    async def _connect(self, tables: tuple[str, ...]) -> None:
        socket = await connect(
            self._uri,
            subprotocols=[SUBPROTOCOL],
            max_size=None,
            proxy=None,
            compression=None,
            additional_headers=self._headers,
        )
        await socket.send(json.dumps({"subscribe": tables}))
        await socket.recv()
        self.sockets.append(socket)

    async def watch(self, until_seq: int, limit_s: float) -> None:
        """Read frames until each viewer has reached this seq."""
        self.arrivals = [[] for _ in self.sockets]
        async with asyncio.timeout(limit_s):
            await asyncio.gather(
                *(self._follow(s, n, until_seq) for n, s in enumerate(self.sockets))
            )

    async def _follow(self, socket: ClientConnection, number: int, until_seq: int) -> None:
        while True:
            frame = await socket.recv()
            assert isinstance(frame, bytes)
            found = header(frame)
            self.arrivals[number].append((found["seq"], time.monotonic()))
            if found["seq"] >= until_seq:
                return

    def delays_s(self, first: int, sent: Sequence[float]) -> list[float]:
        """Return the seconds from sending each change to its arrival at each viewer."""
        took: list[float] = []
        for viewer_arrivals in self.arrivals:
            known = first
            for seq, at in viewer_arrivals:
                took += [at - sent[offset - first] for offset in range(known, seq)]
                known = max(known, seq)
        assert len(took) == len(sent) * len(self.arrivals)
        return took

    async def leave(self) -> None:
        """Close all sockets."""
        await asyncio.gather(*(socket.close() for socket in self.sockets))
