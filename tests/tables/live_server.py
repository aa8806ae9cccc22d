"""Runs the real server on a loopback port, in a thread with its own event loop."""

import asyncio
import contextlib
import http.client
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from starlette.applications import Starlette
from websockets.sync.client import ClientConnection, connect

from livejoin.core.changelog import ChangelogRecord
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.core.state import Limits, State
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.tables.auth import origin_check
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.authentication import Identities, TokenRegistry
from livejoin.tables.auth.sessions_and_codes import Sessions, SignOutPublisher
from livejoin.tables.auth.sign_in_routes import SignInRoutes
from livejoin.tables.http import server
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.http.control_requests import ControlProducer, RequestSigner
from livejoin.tables.http.server import api
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live.socket import LiveSocket
from rig import protocol
from tables.samples import chunk, plain

LIMIT_S = 20
SUBPROTOCOL = "livejoin.v1"
RULES = MessageRules(Names("livejoin"), "control")


@dataclass(frozen=True)
class HttpResponse:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class ReceivedFrame:
    header: dict[str, Any]
    parts: list[tuple[str, str, list[dict[str, Any]]]]  # table, kind, rows

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(table, kind) for table, kind, _ in self.parts]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return next(rows for name, _, rows in self.parts if name == table)


class Viewer:
    """A WebSocket client. `view` holds the rows that result from all frames so far."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.view: dict[str, dict[str, dict[str, Any]]] = {}

    def subscribe(
        self, *tables: str, resume: tuple[int, int] | None = None, wait: bool = False
    ) -> None:
        message: dict[str, Any] = {"subscribe": tables, **({"wait": True} if wait else {})}
        if resume:
            message["resume"] = dict(zip(("generation", "seq"), resume, strict=True))
        self.connection.send(json.dumps(message))

    def next_frame(self, *types: str) -> ReceivedFrame:
        """Return the next frame, or the next of these types."""
        while True:
            data = self.connection.recv(timeout=LIMIT_S)
            assert isinstance(data, bytes)
            header, parts = protocol.parse_frame(data)
            frame = ReceivedFrame(header, [(p.table, p.kind, _read(p.payload)) for p in parts])
            self._apply(frame)
            if not types or header["type"] in types:
                return frame

    def _apply(self, frame: ReceivedFrame) -> None:
        for table, kind, rows in frame.parts:
            if kind == "snapshot":
                self.view[table] = {}
            for row in rows:
                if kind == "remove":
                    self.view[table].pop(row["_id"], None)
                else:
                    self.view[table][row["_id"]] = row


def _read(payload: bytes | memoryview) -> list[dict[str, Any]]:
    with pa.ipc.open_stream(payload) as stream:
        return plain(stream.read_all())


def read_until_closed(connection: socket.socket) -> bytes:
    """Return all data until the peer closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65536):
            received += more
    return received


class RunningServer:
    """A running server; `run_on_loop` accesses its catalog on the event loop."""

    def __init__(self, catalog: Catalog, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self._catalog = catalog
        self._loop = loop
        self.port = port

    def run_on_loop(self, work: Callable[[Catalog], None]) -> None:
        async def on_loop() -> None:
            work(self._catalog)

        asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(LIMIT_S)

    def connect_tcp(self, address: str = "127.0.0.1") -> socket.socket:
        """Open a TCP connection from this loopback address."""
        return socket.create_connection(("127.0.0.1", self.port), LIMIT_S, (address, 0))

    def refuses_connection(self, address: str = "127.0.0.1") -> bool:
        """Whether a new connection is closed without data, or reset while it connects."""
        try:
            with self.connect_tcp(address) as one_more:
                return read_until_closed(one_more) == b""
        except ConnectionResetError:
            return True

    def apply(self, generation: int, end: int, *changes: ChangelogRecord) -> None:
        self.run_on_loop(lambda catalog: catalog.apply(chunk(generation, end, *changes)))

    def follow(self, state: State) -> None:
        self.run_on_loop(lambda catalog: catalog.apply_state(state))

    @contextlib.contextmanager
    def viewer(self, *tables: str, **options: Any) -> Iterator[Viewer]:
        """Connect a viewer and subscribe it to these tables, if any."""
        uri = f"ws://127.0.0.1:{self.port}/api/v1/live"
        defaults = {"subprotocols": [SUBPROTOCOL], "proxy": None, "max_size": None}
        with connect(options.pop("uri", uri), **(defaults | options)) as connection:
            viewer = Viewer(connection)
            if tables:
                viewer.subscribe(*tables)
            yield viewer

    def request(
        self, path: str, method: str = "GET", body: bytes | None = None, /, **headers: str
    ) -> HttpResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            response_headers = {name.lower(): value for name, value in response.getheaders()}
            return HttpResponse(response.status, response_headers, response.read())


def insecure_access() -> server.Access:
    """Return access control without authentication; its audit writes nowhere."""
    nowhere = Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("livejoin")
    return server.Access(
        Identities(TokenRegistry(), Sessions(b"key"), insecure=True),
        Audit(*nowhere),
        SignOutPublisher(*nowhere),
        ConnectionLimits(10_000, 10_000, 10_000),
    )


def application(catalog: Catalog, producer: ControlProducer) -> Starlette:
    """Return the application without its middleware."""
    access = insecure_access()
    origins = origin_check.AllowedOrigins.from_settings(80)
    sign_in = SignInRoutes(access.identities, origins, access.audit, access.sign_outs)
    return api(catalog, LiveSocket(catalog, access.identities), producer, sign_in, access.audit)


@contextlib.contextmanager
def run_server(
    catalog: Catalog | None = None,
    send_buffer: int | None = None,
    kafka: Kafka | None = None,
    rules: MessageRules = RULES,
    *,
    port: int = 0,
    access: server.Access | None = None,
) -> Iterator[RunningServer]:
    """Serve a catalog while the block runs; without authentication unless `access` is given."""
    catalog = catalog or Catalog(logs_kept=100, rejects_kept=100)
    kafka = kafka or Kafka({"bootstrap.servers": "127.0.0.1:1"})
    signer = RequestSigner(kafka, rules.names)
    producer = ControlProducer(Clusters.single(kafka), rules, Limits(), catalog, signer)
    listener = server.listen("127.0.0.1", port)
    if send_buffer is not None:  # inherited by accepted sockets
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    listener.listen()  # clients may connect before the server has started
    port = listener.getsockname()[1]
    started: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
    started = queue.SimpleQueue()
    failures: list[BaseException] = []

    async def serve() -> None:
        stop = asyncio.Event()
        started.put((asyncio.get_running_loop(), stop))
        await server.serve(catalog, producer, listener, stop, access or insecure_access())

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=run, name="server")
    thread.start()
    loop, stop = started.get(timeout=LIMIT_S)
    try:
        yield RunningServer(catalog, loop, port)
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join(LIMIT_S)
    if failures:
        raise failures[0]
