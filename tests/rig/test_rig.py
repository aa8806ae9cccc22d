"""The rig detects errors: a viewer or the oracle reports one wrong cell. Also tests its parts."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from livejoin import row_hash
from livejoin.runtime.broker import free_port
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import frames
from rig import comparing, figures, load, oracle, polling, results, watching
from rig.clock import Clock, ClockStep, real_time
from rig.figures import Figures
from rig.ledgered import row
from rig.oracle import Sent
from rig.running import is_java, is_spark, until
from rig.slow_proxy import Proxy
from rig.storm import EVERY, plan
from rig.storm_actions import KINDS
from rig.storm_validate import Validate
from rig.watching import OF_A_GENERATION, SYSTEM, Watcher, join_errors
from rig.world import run_watcher
from tables.live_server import run_server
from tables.samples import SCHEMAS, chunk, live

NOW = 1_700_000_000_000
RECORDS = {
    "users": [
        Sent(0, 0, NOW, b'{"userId": "a-1", "name": "Ada", "email": "a@b", "age": 36}'),
        Sent(1, 0, NOW, b'{"userId": "a-2", "name": "Bob", "age": 40}'),
        Sent(1, 1, NOW, b'{"userId": '),
        Sent(1, 2, NOW, None),
    ],
    "accounts": [
        Sent(0, 0, NOW, b'{"userId": "a-1", "accountType": "old", "balance": 1}'),
        Sent(0, 1, NOW + 1, b'{"userId": "a-1", "accountType": "new", "balance": 2}'),
    ],
}
Tables = dict[str, dict[str, dict[str, Any]]]


def tables(join: str = "left") -> Tables:
    """Return the tables as livejoin shows them, with the columns unknown to the oracle."""
    more = {"topic": "t", "ts": NOW}
    return {
        name: {row_id: {**row, **more, "_id": row_id} for row_id, row in rows.items()}
        for name, rows in oracle.expected(RECORDS, join).tables.items()
    }


def viewer(server_tables: Tables) -> Watcher:
    """Return a viewer that has received these rows in a frame."""
    one = Watcher("http://nowhere/", lambda *_: 0)
    one._on_frame(
        frames.encode_frame({"type": "cutover", "generation": 1, "seq": 9}, parts(server_tables))
    )
    return one


def parts(server_tables: Tables) -> list[frames.EncodedPart]:
    return [
        frames.encode_rows(name, "snapshot", batch(name, server_tables.get(name, {})))
        for name in (*OF_A_GENERATION, *SYSTEM)
    ]


def batch(name: str, rows: dict[str, dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), SCHEMAS[name])


def heartbeat(server_tables: Tables) -> bytes:
    """Return the heartbeat of a server with these rows."""
    header = {}
    for name in (*OF_A_GENERATION, *SYSTEM):
        rows = batch(name, server_tables.get(name, {}))
        total = sum(
            row_hash.sum_hashes(row_hash.hash_rows(to_batche)) for to_batche in rows.to_batches()
        )
        header[name] = {"rows": rows.num_rows, "hash": row_hash.to_hex(total)}
    return frames.encode_frame({"type": "heartbeat", "generation": 1, "seq": 9, "tables": header})


def one_cell(server_tables: Tables) -> None:
    server_tables["final_ui"]["0-0"]["accountType"] = "old"


def one_number(server_tables: Tables) -> None:
    server_tables["accounts_ui"]["0-1"]["balance"] = 2.0000001


def a_null(server_tables: Tables) -> None:
    server_tables["users_ui"]["1-0"]["email"] = ""


def a_time(server_tables: Tables) -> None:
    server_tables["final_ui"]["0-0"]["_ts"] += 1


def a_time_of_a_user(server_tables: Tables) -> None:
    server_tables["users_ui"]["1-0"]["_ts"] -= 1


def a_row_less(server_tables: Tables) -> None:
    del server_tables["users_ui"]["1-0"]


def a_row_more(server_tables: Tables) -> None:
    server_tables["final_ui"]["9-9"] = {**server_tables["final_ui"]["0-0"], "_id": "9-9"}


def a_reason(server_tables: Tables) -> None:
    server_tables["rejects_ui"]["users/1-1"]["reason"] = "value: empty"


ROWS = [one_cell, one_number, a_null, a_time, a_time_of_a_user, a_row_less, a_row_more]
CHANGES = [*ROWS, a_reason]


@pytest.mark.parametrize("change", CHANGES)
def test_the_oracle_detects(change: Callable[[Tables], None]) -> None:
    truth, server_tables = oracle.expected(RECORDS), tables()
    assert oracle.differences(server_tables, truth) == []
    change(server_tables)
    (found,) = oracle.differences(server_tables, truth)
    assert oracle.lost([found]) + oracle.wrong_cells([found]) >= 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_heartbeat_hash_reveals_wrong_rows_of_a_viewer(
    change: Callable[[Tables], None],
) -> None:
    server_tables = tables()
    one = viewer(server_tables)
    one._on_frame(heartbeat(server_tables))
    assert (one.wrong, one.hashed) == ([], 1)
    change(server_tables)  # change at the server only; the viewer got no frame
    one._on_frame(heartbeat(server_tables))
    (message,) = one.wrong
    assert "seq 9" in message


def test_the_hash_follows_changes_and_removals() -> None:
    server_tables = tables()
    one = viewer(server_tables)
    one_cell(server_tables)
    changed = batch("final_ui", {"0-0": server_tables["final_ui"]["0-0"]})
    removed_id = server_tables["final_ui"].pop("1-0")["_id"]
    header = {"type": "data", "generation": 1, "seq": 9}
    more = [
        frames.encode_rows("final_ui", "upsert", changed),
        frames.encode_removal("final_ui", [removed_id]),
    ]
    one._on_frame(frames.encode_frame(header, more))
    one.wrong.clear()  # these rows result from no join
    one._on_frame(heartbeat(server_tables))
    assert (one.wrong, one.hashed) == ([], 1)


@pytest.mark.parametrize("change", CHANGES)
def test_the_rows_of_a_viewer_are_compared_cell_by_cell(
    change: Callable[[Tables], None],
) -> None:
    truth, server_tables = oracle.expected(RECORDS), tables()
    change(server_tables)
    before = figures.begin()
    with pytest.raises(AssertionError, match="at the viewer"):
        comparing.expect_seen(viewer(server_tables), truth, limit_s=0)
    assert before.lost + before.wrong >= 1
    assert before.rows == 7


class RecordedProducers:
    """The acknowledged records, as of producers."""

    acknowledged = RECORDS


@pytest.mark.parametrize("change", ROWS)
@pytest.mark.parametrize("join", ["left", "inner", "left_outer"])
def test_under_traffic_a_viewer_is_compared_cell_by_cell(
    change: Callable[[Tables], None], join: str
) -> None:
    server_tables, sent = tables(join), RecordedProducers()
    counts = figures.begin()
    comparing.expect_consistent(viewer(server_tables), sent, join, 1, limit_s=0)
    final = {"left": 2, "inner": 2, "left_outer": 3}[join]
    assert (counts.rows, counts.cells) == (2 + 2 + final, 2 * 5 + 2 * 4 + final * 7)
    if join != "left" and change in (one_cell, a_time, a_row_more):
        server_tables["final_ui"]["0-0"] = server_tables["final_ui"].pop(
            "0-0+0-1"
        )  # the row to change
    change(server_tables)
    if join != "left" and "0-0" in server_tables["final_ui"]:
        server_tables["final_ui"]["0-0+0-1"] = {
            **server_tables["final_ui"].pop("0-0"),
            "_id": "0-0+0-1",
        }
    with pytest.raises(AssertionError, match="at the viewer"):
        comparing.expect_consistent(viewer(server_tables), sent, join, 1, limit_s=0)
    with pytest.raises(AssertionError, match="generation 1 is shown"):
        comparing.expect_consistent(viewer(tables(join)), sent, join, 2, limit_s=0)


def test_every_cell_of_a_joined_row_counts() -> None:
    server_tables = tables()
    users, accounts, final = (
        server_tables[f"{name}_ui"] for name in ("users", "accounts", "final")
    )
    assert join_errors(users, accounts, final, "left") == []
    for column in ("userId", "name", "email", "age"):
        changed = {**final, "0-0": {**final["0-0"], column: "x"}}
        assert join_errors(users, accounts, changed, "left")


# --- the storm


def actions(seed: int, count: int) -> list[tuple[str, object]]:
    return list(itertools.islice(plan(seed, KINDS, Validate()), count))


def test_the_same_seed_gives_the_same_storm() -> None:
    assert actions(7, 200) == actions(7, 200)
    assert actions(7, 200) != actions(8, 200)


@pytest.mark.parametrize("seed", range(20))
def test_a_storm_begins_with_every_kind_of_action(seed: int) -> None:
    first = [name for name, _ in actions(seed, len(KINDS) + len(KINDS) // EVERY)]
    assert sorted(name for name in first if name != "validate") == sorted(KINDS)
    assert first.count("validate") == len(KINDS) // EVERY


def test_a_proxy_forwards_and_can_be_slowed_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=[server]).start()
        with (
            Proxy(free_port(), server.getsockname()[1]) as proxy,
            socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as one,
        ):
            assert _round_trip_s(one) < 5
            assert proxy.fast() == 0
            proxy.slow(0.2, 10**6)
            assert _round_trip_s(one) > 0.4  # request and response
            assert proxy.fast() == 2


def test_a_clock_can_be_set_while_a_process_runs(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    header = "import time\nfor _ in range(2): input(); print(time.time(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", header],
        env={**os.environ, **clock.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for ahead_s in (0, -3600):
            clock.set(ahead_s)
            process.stdin.write("\n")
            process.stdin.flush()
            assert abs(float(process.stdout.readline()) - time.time() - ahead_s) < 60


def test_the_real_time_of_what_a_stepped_clock_has_shown() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    minute, day = timedelta(minutes=1), timedelta(days=1)
    steps = [
        ClockStep(noon - 10 * minute, 0),
        ClockStep(noon, 86400),
        ClockStep(noon + 5 * minute, -86400),
        ClockStep(noon + 6 * minute, 0),
    ]
    shown_at = {
        noon - minute: noon - minute,
        noon + minute + day: noon + minute,
        noon + 5.5 * minute - day: noon + 5.5 * minute,
        noon + 7 * minute: noon + 7 * minute,
        # just before its step was recorded
        noon - 0.001 * minute + day: noon - 0.001 * minute,
    }
    assert {shown: real_time(shown, steps, noon + 8 * minute) for shown in shown_at} == shown_at


def _echo(server: socket.socket) -> None:
    one, _ = server.accept()
    with one:
        while data := one.recv(1000):
            one.sendall(data)


def _round_trip_s(one: socket.socket) -> float:
    began = time.monotonic()
    one.sendall(b"hello")
    assert one.recv(1000) == b"hello"
    return time.monotonic() - began


# --- load


def test_a_difference_in_one_cell_of_a_frame_is_detected() -> None:
    truth = pl.DataFrame({"_id": ["a", "b", "c"], "x": [1, None, 3], "y": ["p", "q", None]})
    other = pl.DataFrame({"y": ["p", "q", "r"], "x": [1, 2, 3], "_id": ["a", "b", "d"]})
    assert load.differences(truth.reverse(), truth) == (0, 0, 3)
    lost, wrong, rows = load.differences(other, truth)
    assert (lost, wrong, rows) == (1, 1 + 3, 3)  # c is missing; x of b is wrong; d is not expected


class FakeKafka:
    """Acknowledges at once and remembers the records for the slow oracle."""

    def __init__(self) -> None:
        self.sent: dict[str, list[Sent]] = {"users": [], "accounts": []}

    def producer(self, **_: object) -> Any:
        return self

    def produce(self, topic: str, value: str, on_delivery: Callable[..., None]) -> None:
        records = self.sent[topic]
        position = (
            len(records) % 2,
            len(records) // 2,
            NOW + len(records) * 7919 % 50,
        )  # not in order of time
        records.append(Sent(*position, value.encode()))
        on_delivery(None, FakeMessage(*position))

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        return 0


@dataclass
class FakeMessage:
    at: int
    position: int
    time: int

    def partition(self) -> int:
        return self.at

    def offset(self) -> int:
        return self.position

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time


def test_the_fast_oracle_agrees_with_the_slow_one() -> None:
    kafka = FakeKafka()
    one = load.Load(kafka, {"users": "users", "accounts": "accounts"})  # type: ignore[arg-type]
    one.fill(40)
    for number in range(300):
        one.account()
        if number % 30 == 0:
            one.user()
    assert one.acknowledged == 40 + 300 + 10
    slow = oracle.expected(kafka.sent)
    for name, quick in one.expected_tables().items():
        rows = {row.pop("_id"): row for row in quick.to_dicts()}
        times = {i: {**row, "_ts": oracle.milliseconds(row["_ts"])} for i, row in rows.items()}
        assert times == slow.tables[name], name


# --- polling


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server with 2,000 rows, most of them with an age above thirty."""
    catalog = Catalog(logs_kept=10, rejects_kept=10)
    catalog.apply_state(live(1))
    rows = (row("final_ui", number, "generation 1", 0) for number in range(2000))
    catalog.apply(chunk(1, 2000, *rows))
    with run_server(catalog) as server:
        yield server.port


def test_polling_repeats_every_query(port: int) -> None:
    with polling.polling(port, "final_ui", 2000) as answers:
        until(lambda: len({answer.reader for answer in answers}) == polling.READERS, "all read", 20)
    query_counts = Counter(answer.query for answer in answers)
    assert all(query_counts[query] >= 2 for query in polling.QUERIES)
    assert {answer.rows for answer in answers} == {100, 1000, 2000}


@pytest.mark.parametrize("form", ["json", "arrow", "csv"])
def test_a_response_with_a_missing_row_ends_the_polling_process(port: int, form: str) -> None:
    command = [sys.executable, polling.__file__, str(port), "final_ui", "2001", f"format={form}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "2000 rows" in done.stderr


def test_a_process_that_exits_early_fails_the_test() -> None:
    command = [sys.executable, "-c", "print('hello'); raise SystemExit(3)"]
    with (
        pytest.raises(AssertionError, match="has ended with 3"),
        polling.running_process(command, str.strip) as lines,
    ):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    assert lines == ["hello"]


# --- results


def test_results_are_stored_per_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "results.json"
    monkeypatch.setattr(results, "DATA", file)
    for test, outcome in (
        ("test_a1_x", "failed"),
        ("test_a1_y", "passed"),
        ("test_a1_x", "passed"),
    ):
        results.keep("A1", test, results.result(outcome, "", 1, Figures().landed(kills=1)))
    kept = results.load()["A1"]
    assert {test: one["outcome"] for test, one in kept.items()} == {
        "test_a1_x": "passed",
        "test_a1_y": "passed",
    }
    assert kept["test_a1_x"]["landed"] == {"kills": 1}
    assert len(file.read_text().splitlines()) == 2 + 2 + 2, "one line per test"
    assert json.loads(file.read_text())


@pytest.mark.parametrize(
    ("test", "case"),
    [
        ("test_a6_two_hundred", "A6"),
        ("test_storm_of_everything", "storm"),
        ("test_cluster_a_swap", None),
        ("test_a_swap", None),
    ],
)
def test_a_test_belongs_to_the_case_in_its_name(test: str, case: str | None) -> None:
    assert results.case_of(test) == case


# --- dropped viewers


def test_a_viewer_disconnected_by_a_running_server_counts_as_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "_GONE_S", 0.2)
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        _closing(1011) as url,
        Watcher(url, lambda *_: 0, lambda: process.pid) as one,
    ):
        until(lambda: one.dropped, "it is detected", 20)
    with _closing(1011) as url, Watcher(url, lambda *_: 0, lambda: process.pid) as one:
        until(lambda: len(one.closed) > 2, "the server is gone", 20)
    assert one.dropped == 0


def test_a_world_fails_if_its_viewer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if that is the last event."""
    monkeypatch.setattr(watching, "_GONE_S", 0.2)
    counts = figures.begin()
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        _closing(1011) as url,
        pytest.raises(AssertionError, match=r"disconnected its viewer: .*1011"),
        run_watcher(Watcher(url, lambda *_: 0, lambda: process.pid)) as one,
    ):
        until(lambda: one.closed, "the connection is lost", 20)
    assert counts.dropped >= 1


def test_a_frozen_server_does_not_count_as_dropping_its_viewers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "_GONE_S", 0.2)
    closing = threading.Event()
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        _closing(1011, closing) as url,
        run_watcher(Watcher(url, lambda *_: 0, lambda: process.pid)) as one,
    ):
        until(lambda: one.connects, "it is connected", 20)
        process.send_signal(signal.SIGSTOP)
        until(lambda: one._frozen, "it is detected", 20)
        assert not one.closed
        process.send_signal(signal.SIGCONT)
        closing.set()
        until(lambda: one.connects == 2, "the connection is lost and opened again", 20)


@contextlib.contextmanager
def _closing(code: int, when: threading.Event | None = None) -> Iterator[str]:
    """Run a server that closes every connection; with `when`, those opened before the event."""

    def close(connection: ServerConnection) -> None:
        if when is not None and when.is_set():
            assert list(connection) == [], "it stays until it leaves"
        if when is not None:
            assert when.wait(20)
        connection.close(code)

    with serve(
        close,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol("livejoin.v1")],
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/"
        server.shutdown()
        thread.join()


def test_a_java_that_is_only_asked_for_its_version_is_no_jvm_of_spark(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.symlink_to("/bin/sh")
    kinds = {
        "version": ["-version"],
        "launcher": ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"],
        "driver": ["-cp", "jars", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"],
    }
    with contextlib.ExitStack() as stack:
        pids = {}
        for kind, arguments in kinds.items():
            command = [str(java), "-c", "read line", *arguments]
            process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
            stack.callback(process.kill)
            pids[kind] = process.pid
        until(lambda: all(is_java(pid) for pid in pids.values()), "all run", 10)
        assert [kind for kind, pid in pids.items() if is_spark(pid)] == ["driver"]
