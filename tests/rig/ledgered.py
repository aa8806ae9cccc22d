"""A livejoin that nobody leads: ledger and changelogs written by hand, a real `livejoin serve`.

So the table server is tried alone, with as many rows, swaps and viewers as one likes.
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


class Ledgered:
    """Kafka with the ledger and changelogs of a livejoin that nobody leads."""

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

    def generation(self, number: int, count: int, tables: Sequence[str] = DATA) -> Generation:
        """A changelog with so many rows in each of these tables."""
        topic = self._names.changelog(number)
        self.kafka.create_topic(topic, {"cleanup.policy": "compact"})
        for n in range(count):
            for table in tables:
                self.put(number, row(table, n, f"generation {number}"))
        self.flush()
        return self.described(number)

    def described(self, number: int) -> Generation:
        """A generation as the ledger tells of it, complete with what was written of it so far."""
        reading = {s.name: Reading(s.name, "", {0: 0}, {0: -1}) for s in spec.SOURCES}
        choice = spec.Choice("users", "accounts")
        return Generation(number, choice, 0.0, sources=reading, ready_at=self.ends.get(number, 0))

    def put(self, number: int, change: changelog.ChangelogRecord) -> None:
        """Write one record of a changelog."""
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
        """Have everything written."""
        assert self._producer.flush(120) == 0

    def lead(self, live: Generation, standby: Generation | None = None) -> None:
        """Say what is live, as a leader would."""
        state = State(last_number=live.number, live=live, standby=standby)
        status = {"state": "live", "generation": live.number, "message": ""}
        for key, value in ((STATE_KEY, to_json(state)), (STATUS_KEY, status)):
            self._producer.produce(self._names.ledger, json.dumps(value), key)
        self.flush()

    @contextlib.contextmanager
    def server(self, **settings: Any) -> Iterator[Running]:
        """A table server that shows what is live."""
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
    """Viewers in one event loop; each notes when which part of the changelog reached it."""

    def __init__(self, server: Running) -> None:
        self._headers = server.headers
        self._uri = server.url.replace("http", "ws") + "api/v1/live"
        self.seen: list[list[tuple[int, float]]] = []  # by viewer: seq and when
        self.sockets: list[ClientConnection] = []

    async def join(self, count: int, tables: tuple[str, ...]) -> None:
        """Connect so many viewers, and wait until each has its snapshot."""
        for start in range(0, count, 50):
            await asyncio.gather(*(self._one(tables) for _ in range(min(50, count - start))))

    async def _one(self, tables: tuple[str, ...]) -> None:
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
        """Take frames until each viewer has read this far."""
        self.seen = [[] for _ in self.sockets]
        async with asyncio.timeout(limit_s):
            await asyncio.gather(
                *(self._follow(s, n, until_seq) for n, s in enumerate(self.sockets))
            )

    async def _follow(self, socket: ClientConnection, number: int, until_seq: int) -> None:
        while True:
            frame = await socket.recv()
            assert isinstance(frame, bytes)
            found = header(frame)
            self.seen[number].append((found["seq"], time.monotonic()))
            if found["seq"] >= until_seq:
                return

    def took(self, first: int, sent: Sequence[float]) -> list[float]:
        """Seconds from sending each change, from an offset on, until each viewer had it."""
        took: list[float] = []
        for seen in self.seen:
            known = first
            for seq, at in seen:
                took += [at - sent[offset - first] for offset in range(known, seq)]
                known = max(known, seq)
        assert len(took) == len(sent) * len(self.seen)
        return took

    async def leave(self) -> None:
        """Close all sockets."""
        await asyncio.gather(*(socket.close() for socket in self.sockets))
