"""A leader frozen and resumed, as on another machine: shared checkpoints, but its own lock.

Its JVM must be gone before another process leads, and none of its late writes may be served.
"""

import contextlib
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from livejoin.control.leadership import SESSION_S
from livejoin.kafka.cluster import Kafka
from rig import figures, records
from rig.figures import Figures
from rig.protocol import parse_frame
from rig.running import Running, alive, until
from rig.watching import Watcher
from rig.world import (
    ExpectLive,
    ExpectOracle,
    Produce,
    StopTraffic,
    Traffic,
    WaitOutcome,
    World,
    play,
    request_pair,
    run_world,
    start_second,
)

SEED = 20261117
FROZEN_S = 60
AGREE_S = 120
TABLES = ("users_ui", "accounts_ui", "final_ui")
COMPACTED = {  # compaction as early and as thorough as a broker can
    "min.compaction.lag.ms": "0",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}


@dataclass
class TwoOrchestrators:
    """Two orchestrators, as on two machines, and a table server that runs from the beginning."""

    first: World  # by the first orchestrator
    second: World  # by the second orchestrator, with the viewer of the old server
    old: Running


@pytest.fixture
def orchestrators(
    request: pytest.FixtureRequest, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TwoOrchestrators]:
    """With checkpoints on no local file system, the lock is in a folder of the user."""
    name = request.node.name.split("_")[1].split("[")[0] + str(len(request.node.name))
    shared = tmp_path / "shared"
    shared.mkdir()
    mount = {"spark.hadoop.fs.viewfs.mounttable.shared.link./checkpoints": shared.as_uri()}
    with contextlib.ExitStack() as stack:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
        one = stack.enter_context(
            run_world(
                kafka,
                tmp_path / "one",
                name,
                seed=SEED,
                start=False,
                checkpoints="viewfs://shared/checkpoints",
                spark={"conf": mount},
            )
        )
        one.live.start()
        one.live.wait_live()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
        other, old = (
            start_second(one, tmp_path / "other"),
            start_second(one, tmp_path / "old", "serve"),
        )
        for running in (other, old):
            stack.callback(running.stop, signal.SIGKILL)
            running.wait_live()
        assert not other.jvms(), "only the leader has queries"
        viewer = Watcher(old.url, one.watcher.min_rows, lambda: old.pid)
        watcher = stack.enter_context(viewer)
        yield TwoOrchestrators(one, World(**{**vars(one), "live": other, "watcher": watcher}), old)
        figures.now().viewers_dropped(watcher.dropped)
        assert not watcher.dropped, f"the old server's viewer was dropped with {watcher.closed}"


@contextlib.contextmanager
def freeze(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def heartbeat_of(livejoin: Running) -> tuple[int, int, dict[str, Any]]:
    """Return generation, `seq` and hashes of the tables from a heartbeat."""
    address = livejoin.url.replace("http", "ws") + "api/v1/live"
    with connect(
        address, subprotocols=[Subprotocol("livejoin.v1")], max_size=None, proxy=None
    ) as s:
        s.send(json.dumps({"subscribe": list(TABLES)}))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            data = s.recv(20)
            assert isinstance(data, bytes)
            header, _ = parse_frame(data)
            if header["type"] == "heartbeat":
                tables = {name: header["tables"][name] for name in TABLES}
                return header["generation"], header["seq"], tables
    raise AssertionError(f"{livejoin.url} sends no heartbeat")


def wait_until_equal(*servers: Running) -> tuple[int, int, dict[str, Any]]:
    """Wait until all servers are at the same `seq`, and check that their rows are equal."""
    found: list[Any] = []

    def same() -> bool:
        found[:] = [heartbeat_of(server) for server in servers]
        return len({(generation, seq) for generation, seq, _ in found}) == 1

    until(same, "all servers are at one seq", AGREE_S)
    assert all(one == found[0] for one in found), found
    first: tuple[int, int, dict[str, Any]] = found[0]
    return first


def expect_settled(orchestrators: TwoOrchestrators, pair: str = "a") -> None:
    """Check every cell at the second orchestrator and at the old server."""
    play(orchestrators.second, [StopTraffic(), ExpectOracle(pair)])
    play(World(**{**vars(orchestrators.second), "live": orchestrators.old}), [ExpectOracle(pair)])


@dataclass(frozen=True)
class Ended:
    """How many seconds a JVM took to end, and when it was last seen running."""

    after_s: float
    seen_at: datetime


def wait_ended(jvm: int, limit_s: float) -> Ended:
    """Wait until a JVM has ended."""
    began = time.monotonic()
    seen_at = [datetime.now(UTC)]

    def has_ended() -> bool:
        now = datetime.now(UTC)
        if alive(jvm):
            seen_at[:] = [now]
            return False
        return True

    until(has_ended, "the frozen leader's JVM is gone", limit_s)
    return Ended(time.monotonic() - began, seen_at[0])


def expect_ended_before(orchestrators: TwoOrchestrators, ended: Ended) -> None:
    """Check that the frozen leader's JVM ended within the session, before the other one led."""
    assert ended.after_s <= SESSION_S, f"the JVM was there for {ended.after_s:.1f} s"
    log_text = re.search(
        r"^(\S+) \[info +\] leading ", orchestrators.second.live.log.read_text(), re.MULTILINE
    )
    assert log_text, "the other one did not log when it led"
    led_at = datetime.fromisoformat(log_text[1])
    assert ended.seen_at < led_at, f"its JVM was seen at {ended.seen_at}, another led at {led_at}"


def wait_taken_over(orchestrators: TwoOrchestrators) -> None:
    """Wait until the other orchestrator leads."""
    orchestrators.second.watcher.replaying = True  # its query reads the last batch again
    until(orchestrators.second.live.jvms, "the other one leads", 60)


def wait_given_up(orchestrators: TwoOrchestrators) -> None:
    """Check that the resumed first orchestrator does not lead and has no JVM."""
    first = orchestrators.first.live

    def given_up() -> bool:
        log_text = first.log.read_text()
        assert first.exit_code is not None or not first.jvms(), "it has a JVM again"
        return first.exit_code is not None or "no longer leading" in log_text

    until(given_up, "the first one gives up", 30)
    until(lambda: first.exit_code is not None or not first.jvms(), "it has no JVM", 5)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("who", ["python and jvm", "python alone", "the whole machine"])
def test_a17_a_leader_is_frozen_and_woken(
    who: str, orchestrators: TwoOrchestrators, kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    first, second = orchestrators.first.live, orchestrators.second.live
    play(orchestrators.second, [Traffic(100)])
    jvm = first.jvm()
    guard = os.getpgid(jvm)
    pids = {"python alone": [first.pid], "python and jvm": [first.pid, jvm]}
    with freeze(*pids.get(who, [first.pid, jvm, guard])):
        case.landed(freezes=1)
        began = time.monotonic()
        if who in pids:  # while its guard runs, the JVM ends before another leader can be elected
            ended = wait_ended(jvm, SESSION_S + 5)
        wait_taken_over(orchestrators)
        if who in pids:
            expect_ended_before(orchestrators, ended)
        time.sleep(max(0.0, FROZEN_S - (time.monotonic() - began)))  # a minute, as in the case
    if who not in pids:  # the guard was resumed last
        ended = wait_ended(jvm, 5)
    wait_given_up(orchestrators)
    second.wait_live()
    expect_settled(orchestrators)
    with contextlib.ExitStack() as stack:
        new = _served(orchestrators, tmp_path / "new", stack)
        winner = records.write_late_record(orchestrators.second)
        expect_settled(orchestrators)  # no server shows the late record
        _, seq, _ = wait_until_equal(second, orchestrators.old, new)
        removed = _compacted(orchestrators, kafka, records.changelog(orchestrators.second))
        kept = records.last_of(orchestrators.second, winner.key())
        # the records that closed the segment may have given the row a newer account
        assert kept.version is not None
        assert winner.version is not None
        assert kept.version >= winner.version
        expect_settled(orchestrators)
        newest = _served(orchestrators, tmp_path / "newest", stack)
        wait_until_equal(second, orchestrators.old, new, newest)
    assert not orchestrators.second.watcher.wrong, orchestrators.second.watcher.wrong[:3]
    case.landed(late_writes=1, compactions=1).note(
        f"{who}: its JVM was gone after {ended.after_s:.1f} s; {removed} records compacted"
    )
    print(f"\nA17: {case.notes[-1]}, seq {seq}")


def _served(orchestrators: TwoOrchestrators, folder: Path, stack: contextlib.ExitStack) -> Running:
    """Start another table server."""
    one = start_second(orchestrators.first, folder, "serve")
    stack.callback(one.stop, signal.SIGKILL)
    one.wait_live()
    return one


def _compacted(orchestrators: TwoOrchestrators, kafka: Kafka, topic: str) -> int:
    """Compact a changelog; returns the number of removed records."""
    mark = kafka.end_offset(topic)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for name, value in COMPACTED.items():
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(change)
    for done in kafka.admin.incremental_alter_configs([resource]).values():
        done.result(20)
    for _ in range(
        3
    ):  # a write after segment.ms starts a new segment, so older ones can be compacted
        time.sleep(1.2)
        play(orchestrators.second, [Produce("a", 20)])
    remaining: list[int] = []

    def cleaned() -> bool:
        found = records.records(kafka, topic)
        keys = Counter(record.key for record in found if record.offset < mark)
        remaining[:] = [sum(keys.values())]
        return remaining[0] < mark and max(keys.values()) == 1

    until(cleaned, "the cleaner has run", 120)
    return mark - remaining[0]


@pytest.mark.timeout(600)
def test_a14_two_orchestrators_with_shared_checkpoints_and_a_frozen_leader(
    orchestrators: TwoOrchestrators, kafka: Kafka, case: Figures
) -> None:
    """Only the guard ends the JVM; what the second orchestrator did meanwhile persists."""
    first, name = orchestrators.first.live, orchestrators.first.name
    play(orchestrators.second, [Traffic(50)])
    jvm = first.jvm()
    with freeze(first.pid):
        case.landed(freezes=1)
        ended = wait_ended(jvm, SESSION_S + 5)
        wait_taken_over(orchestrators)
        expect_ended_before(orchestrators, ended)
        play(
            orchestrators.second,
            [request_pair(name, "b"), WaitOutcome("live", limit_s=180), ExpectLive("b")],
        )
    wait_given_up(orchestrators)
    play(orchestrators.second, [ExpectLive("b")])
    expect_settled(orchestrators, "b")
    wait_until_equal(orchestrators.second.live, orchestrators.old)
    lines = records.expect_one_writer(kafka, name)
    case.note(
        f"{lines} lines, each written once; the frozen JVM was gone after {ended.after_s:.1f} s"
    )
