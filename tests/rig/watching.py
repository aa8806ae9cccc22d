"""A viewer that builds its own tables from frames, and checks these rules on every frame.

O1  `final_ui` is the join of `users_ui` and `accounts_ui`, cell by cell, or just ahead of them
O3  a row never goes back in time
O4  no frame mixes generations; no table is empty or partial
    counts and hashes of each heartbeat match the rows held here
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from livejoin import row_hash
from rig.protocol import Part, parse_frame
from rig.running import alive, is_stopped

DATA = ("users_ui", "accounts_ui", "final_ui")
OF_A_GENERATION = (*DATA, "rejects_ui")
SYSTEM = ("orchestrator_status", "control_raw", "generations")
Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]
Versioned = tuple[Any, str, Row]
_USER, _ACCOUNT = ("userId", "name", "email", "age"), ("accountType", "balance")
_RECEIVE_S = 0.2
_GONE_S = 5  # time limit for a killed or stopping server to end
_GOING_AWAY = 1001  # close code of a stopping server


@dataclass(frozen=True)
class Cutover:
    """A cutover as this viewer received it."""

    generation: int
    at: float  # monotonic


@dataclass
class Watcher:
    """Subscribes to everything and checks every frame. `wrong` must stay empty."""

    url: str
    # minimum number of rows of a source and tag in a generation requested at this time
    min_rows: Callable[[str, str, datetime], int]
    pid: Callable[[], int] | None = None  # of the server
    tables: Tables = field(
        default_factory=lambda: {name: {} for name in (*OF_A_GENERATION, *SYSTEM)}
    )
    generation: int | None = None
    frames: int = 0
    wrong: list[str] = field(default_factory=list)
    cutovers: list[Cutover] = field(default_factory=list)
    connects: int = 0
    # After a crash the query reads its last batch again. Until that is done, a new row may lack
    # partners; ExpectOracle checks that they arrive.
    replaying: bool = False
    closed: list[int] = field(default_factory=list)  # close codes sent by servers
    dropped: int = 0  # connections lost although the server was running and not stopping
    hashed: int = 0  # heartbeats whose hashes matched
    # the tag of a userId names its topics, so that mixed tables are detected
    tag: Callable[[str], str] = lambda user: user.partition("-")[0]

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()  # guards the tables
        self._lost: list[tuple[int, float]] = []  # server pid, time of a lost connection
        self._frozen: set[int] = set()  # pids of servers that were frozen during a connection
        self._hashes: dict[str, dict[str, int]] = {name: {} for name in self.tables}
        self._sums = dict.fromkeys(self.tables, 0)
        self._latest_ts: dict[tuple[int, str], Any] = {}
        self._touched: set[str | None] = set()
        self._of_user: dict[str, dict[str | None, set[str]]] = {name: {} for name in DATA}
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        while self._lost:  # find out whether these servers are still running
            self._check_lost_connections()
            time.sleep(0.05)

    def snapshot(self) -> tuple[int | None, Tables]:
        """Return generation and tables as of one moment, between two frames."""
        with self._lock:
            return self.generation, {name: dict(rows) for name, rows in self.tables.items()}

    def _run(self) -> None:
        address = self.url.replace("http", "ws") + "api/v1/live"
        server = 0
        while not self._stop.is_set():
            self._check_lost_connections()
            try:
                protocols = [Subprotocol("livejoin.v1")]
                with connect(address, subprotocols=protocols, max_size=None, proxy=None) as socket:
                    server = self.pid() if self.pid else 0
                    self._frozen.discard(server)
                    socket.send(json.dumps({"subscribe": list(self.tables)}))
                    self.connects += 1
                    self.replaying = self.replaying or self.connects > 1
                    while not self._stop.is_set():
                        self._check_lost_connections()
                        try:
                            data = socket.recv(_RECEIVE_S)
                        except TimeoutError:
                            if server and is_stopped(server):
                                self._frozen.add(server)
                            continue
                        assert isinstance(data, bytes)
                        with self._lock:
                            self._on_frame(data)
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd else 0
                self.closed.append(code)
                # a server frozen for long loses its viewers, and was not running meanwhile
                if server and code != _GOING_AWAY and server not in self._frozen:
                    self._lost.append((server, time.monotonic()))
            except (OSError, InvalidHandshake):
                self._stop.wait(0.1)  # the server is down; the scenario checks that

    def _check_lost_connections(self) -> None:
        """Count lost connections to servers that still run; forget those to servers that ended."""
        for one in list(self._lost):
            is_running = alive(one[0])
            if not is_running or time.monotonic() - one[1] > _GONE_S:
                self._lost.remove(one)
                self.dropped += is_running

    def _on_frame(self, data: bytes) -> None:
        header, parts = parse_frame(data)
        self.frames += 1
        if header["type"] == "error":
            self.wrong.append(f"error frame: {header}")
        if header["type"] == "heartbeat":
            self._check_heartbeat(header)
        # a server that just started has no generation: keep the rows
        starting = header["generation"] is None and self.generation is not None
        touched = {p.table for p in parts if not (starting and p.table in OF_A_GENERATION)}
        for part in parts:
            if part.table in touched:
                self._apply(part)
        moved = header["generation"] not in (None, self.generation)
        if moved and not set(OF_A_GENERATION) <= touched:
            self.wrong.append(f"generation {header['generation']} came without all tables")
        if moved:
            self.generation = header["generation"]
            self.cutovers.append(Cutover(header["generation"], time.monotonic()))
        if touched & set(DATA) and self.generation is not None:
            where = f"frame {self.frames}, generation {self.generation}: "
            wrong = self._partial() if moved else []
            self.wrong += [where + one for one in (*wrong, *self._check_touched())][:3]

    def _apply(self, part: Part) -> None:
        table = self.tables[part.table]
        of_user = self._of_user.get(part.table)
        with pa.ipc.open_stream(part.payload) as stream:
            batch = stream.read_all()
        rows = batch.to_pylist()
        self._rehash(part, batch)
        if part.kind == "snapshot":
            table.clear()
            if of_user is not None:
                of_user.clear()
        for row in rows:
            row_id = row["_id"]
            old = table.pop(row_id, None)
            if part.kind != "remove":
                table[row_id] = row
            if of_user is None or (known := row if part.kind != "remove" else old) is None:
                continue
            ids = of_user.setdefault(known["userId"], set())
            ids.add(row_id) if part.kind != "remove" else ids.discard(row_id)
            self._touched.add(known["userId"])

    def _rehash(self, part: Part, batch: pa.Table) -> None:
        """Update the sum of the row hashes; each row is hashed once, on arrival."""
        hashes = self._hashes[part.table]
        if part.kind == "snapshot":
            hashes.clear()
            self._sums[part.table] = 0
        ids = batch.column("_id").to_pylist()
        new = [0] * len(ids)
        if part.kind != "remove":
            new = [
                int(hash_row) for of in batch.to_batches() for hash_row in row_hash.hash_rows(of)
            ]
        for row_id, expected_hash in zip(ids, new, strict=True):
            self._sums[part.table] += expected_hash - hashes.pop(row_id, 0)
            if part.kind != "remove":
                hashes[row_id] = expected_hash

    def _check_heartbeat(self, header: Mapping[str, Any]) -> None:
        """Compare the rows held with the server's figures at this `seq`."""
        if header["generation"] is None:
            return
        at = f"generation {header['generation']}, seq {header['seq']}: "
        reported = {name: of for name, of in header["tables"].items() if name in self.tables}
        for name, figures in reported.items():
            count, expected_hash = len(self.tables[name]), row_hash.to_hex(self._sums[name])
            if figures["rows"] != count:
                self.wrong.append(f"{at}{name}: {count} rows here, {figures['rows']} there")
            elif figures["hash"] != expected_hash:
                self.wrong.append(
                    f"{at}{name}: the hash is {expected_hash} here, {figures['hash']} there"
                )
        if missing := self.tables.keys() - reported.keys():
            self.wrong.append(f"{at}no figures of {sorted(missing)}")
        self.hashed += 1

    def _partial(self) -> list[str]:
        """Check that the tables of a cutover have all rows of the time of the request."""
        requested_at = self._row("requestedAt")
        tags = [self.tag(user) for user in self._of_user["users_ui"] if user]
        if requested_at is None or not tags:
            return []
        wrong = []
        for source in ("users", "accounts"):
            least, row_count = (
                self.min_rows(tags[0], source, requested_at),
                len(self.tables[f"{source}_ui"]),
            )
            if row_count < least:
                wrong.append(f"{source}: {row_count} of {least} rows")
        return wrong

    def _check_touched(self) -> list[str]:
        """Check every user that this frame has changes for."""
        touched, self._touched = self._touched, set()
        tags = {self.tag(user) for of in self._of_user.values() for user in of if user}
        wrong = [f"tables of {sorted(tags)} are mixed"] if len(tags) > 1 else []
        join = self._row("joinType")
        for user in touched:
            users, accounts, final = (
                {i: self.tables[name][i] for i in self._of_user[name].get(user, ())}
                for name in DATA
            )
            if join is not None and not self.replaying:
                wrong += join_errors(users, accounts, final, join)
            for row_id, row in final.items():
                key = (self.generation or 0, row_id)
                if row["_ts"] < self._latest_ts.get(key, row["_ts"]):
                    wrong.append(f"final_ui {row_id} went back in time")
                self._latest_ts[key] = row["_ts"]
        return wrong

    def _row(self, column: str) -> Any:
        """Return a column of the served generation in the table of generations, if present."""
        rows = self.tables["generations"].values()
        found = [row[column] for row in rows if row["generation"] == self.generation]
        return found[0] if found else None


def join_errors(
    users: Mapping[str, Row], accounts: Mapping[str, Row], final: Mapping[str, Row], join: str
) -> list[str]:
    """Return where `final_ui` is neither the join of the two tables nor just ahead of them.

    An event's own row is written last, so `final_ui` may have it first; never the other way round.
    """
    by_user: dict[str | None, list[Versioned]] = {}
    for row_id, row in accounts.items():
        if row["userId"] is not None:
            version = (row["_ts"], *map(int, row_id.split("-")))
            by_user.setdefault(row["userId"], []).append((version, row_id, row))
    wrong, expected_ids = [], set()
    for user_id, user in users.items():
        user_accounts = by_user.get(user["userId"], [])
        if join == "left":
            expected_ids.add(user_id)
            wrong += _wrong_left(user_id, user, user_accounts, final)
        else:
            expected_ids |= {f"{user_id}+{account_id}" for _, account_id, _ in user_accounts}
            wrong += _wrong_pairs(user_id, user, user_accounts, final)
            if join == "left_outer" and not user_accounts:
                expected_ids.add(user_id)  # or just removed, for an account that follows
    for row_id in final.keys() - expected_ids:
        user_id, _, account_id = row_id.partition("+")
        if user_id in users and (not account_id or account_id in accounts):
            wrong.append(f"final_ui has {row_id}")
    return wrong


def _wrong_pairs(
    user_id: str, user: Row, user_accounts: list[Versioned], final: Mapping[str, Row]
) -> list[str]:
    wrong = []
    for _, account_id, account in user_accounts:
        found = final.get(f"{user_id}+{account_id}")
        if found is None:
            wrong.append(f"final_ui lacks {user_id}+{account_id}")
        elif _differ(found, user, _USER) or _differ(found, account, _ACCOUNT):
            wrong.append(f"final_ui {user_id}+{account_id} is {found}, not {user}, {account}")
    return wrong


def _wrong_left(
    user_id: str, user: Row, user_accounts: list[Versioned], final: Mapping[str, Row]
) -> list[str]:
    found = final.get(user_id)
    if found is None:
        return [f"final_ui lacks {user_id}"]
    if _differ(found, user, _USER):
        return [f"final_ui {user_id} is {found}, the user {user}"]
    if not user_accounts:
        return []
    newest = max(user_accounts, key=lambda one: one[0])[2]
    if not _differ(found, newest, _ACCOUNT) or found["_ts"] >= newest["_ts"]:
        return []
    return [f"final_ui {user_id} is {found}, the newest account {newest}"]


def _differ(found: Row, row: Row, columns: tuple[str, ...]) -> bool:
    return any(found[column] != row[column] for column in columns)
