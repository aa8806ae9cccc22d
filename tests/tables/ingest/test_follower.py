"""What a follower makes of a ledger: its past is read, and not acted on."""

import json
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from structlog.testing import capture_logs

from livejoin.core.generation import Generation, Reading
from livejoin.core.ledger_format import to_json
from livejoin.core.names import Names
from livejoin.core.state import GENERATION_KEY, LEADER_KEY, STATE_KEY, STATUS_KEY, State
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.follower import LedgerFollower
from rig.running import until
from tables.samples import CHOICE, user

NAMES = Names("crm")
LIMIT_S = 20


@dataclass(frozen=True)
class Record:
    """A message of one partition, or its end."""

    of: str
    at: int
    pair: tuple[bytes, bytes] = (b"", b"")
    end: bool = False

    def __len__(self) -> int:
        return len(self.pair[1])

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.end else None

    def topic(self) -> str:
        return self.of

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.pair[0]

    def value(self) -> bytes:
        return self.pair[1]


class Log(Kafka):
    """Topics of one partition, of which a reader gets a record at a time; ends are told apart."""

    def __init__(self, *topics: str) -> None:
        super().__init__({"bootstrap.servers": "nowhere"})
        self.logs: dict[str, list[Record]] = {topic: [] for topic in topics}
        self.ends: dict[str, int] = {}  # where markers stand behind the last record
        self.written = threading.Condition()
        self.fail = threading.Event()  # the next time that something is read

    def write(self, topic: str, *pairs: tuple[bytes, bytes], skip: int = 0) -> None:
        """Append records; `skip` offsets after each hold nothing that a reader gets."""
        with self.written:
            for pair in pairs:
                at = self.ends.get(topic, 0)
                self.logs.setdefault(topic, []).append(Record(topic, at, pair))
                self.ends[topic] = at + 1 + skip

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, "id", (0,)) for name in names if name in self.logs}

    def offsets(self, topics: Iterable[Topic], _spec: OffsetSpec) -> dict[str, dict[int, int]]:
        return {topic.name: {0: self.ends.get(topic.name, 0)} for topic in topics}

    def wait_until_reachable(self, _limit_s: float) -> Any:
        return None

    def reader(self, *_given: Any, **_options: Any) -> Any:
        return Reader(self)


@dataclass
class Reader:
    """Gets the ledger record by record, and its end as an event of its own, as librdkafka does."""

    log: Log
    at: dict[str, int] = field(default_factory=dict)  # the next record by topic
    told: dict[str, int] = field(default_factory=dict)  # the end that was told last

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.incremental_assign(places)

    def incremental_assign(self, places: Iterable[TopicPartition]) -> None:
        self.at |= {place.topic: 0 for place in places}

    def incremental_unassign(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            del self.at[place.topic]

    def get_watermark_offsets(self, place: TopicPartition, **_limit: float) -> tuple[int, int]:
        return 0, self.log.ends.get(place.topic, 0)

    def poll(self, _wait_s: float) -> Record | None:
        if self.log.fail.is_set():
            self.log.fail.clear()
            raise KafkaException(KafkaError(KafkaError.UNKNOWN))
        with self.log.written:
            for topic, at in self.at.items():
                if at < len(self.log.logs[topic]):
                    self.at[topic] += 1
                    return self.log.logs[topic][at]
                end = self.log.ends.get(topic, 0)
                if self.told.get(topic) != end:
                    self.told[topic] = end
                    return Record(topic, end, end=True)
        return None

    def consume(self, _most: int, _wait_s: float) -> list[Record]:
        return []

    def close(self) -> None:
        self.at = {}


class Told(Catalog):
    """Notes what the follower tells."""

    def __init__(self) -> None:
        super().__init__(logs_kept=100, rejects_kept=100)
        self.states: list[State] = []
        self.cutovers: list[int | None] = []
        self.statuses: list[Mapping[str, Any]] = []
        self.listeners.append(self)

    def apply_state(self, state: State, ends: Mapping[int, int] | None = None) -> None:
        self.states.append(state)
        super().apply_state(state, ends)

    def set_status(self, row: Mapping[str, Any]) -> None:
        self.statuses.append(row)
        super().set_status(row)

    def on_change(self, *_: Any) -> None:
        """Rows are looked at where they matter."""

    def on_cutover(self) -> None:
        self.cutovers.append(self.generation)


@pytest.fixture
def log() -> Log:
    return Log(NAMES.ledger, NAMES.logs, NAMES.leader)


def generation(number: int, ready_at: int | None = None, *, resolved: bool = True) -> Generation:
    reading = {"users": Reading("users", "", {0: 0}, {0: -1})} if resolved else {}
    return Generation(number, CHOICE, 0.0, sources=reading, ready_at=ready_at)


def said(state: State) -> list[tuple[bytes, bytes]]:
    """What a leader writes of a state."""
    live = state.live.number if state.live else 0
    row = {"generation": live, "state": "live", "requestedAt": 0}
    return [
        (STATE_KEY, json.dumps(to_json(state)).encode()),
        (STATUS_KEY, json.dumps({"state": "live", "generation": live}).encode()),
        (GENERATION_KEY + b"%d" % live, json.dumps(row).encode()),
    ]


def rows(count: int) -> list[tuple[bytes, bytes]]:
    return [(one.key(), one.value()) for one in map(user, range(count))]


def following(log: Log, host: Catalog, done: Callable[[], Any], what: str) -> None:
    """Follow until something holds. The tables are this thread's alone, as they are a loop's."""
    stop = threading.Event()
    posted = queue.SimpleQueue[Callable[[], None]]()
    follower = LedgerFollower(log, NAMES, host, posted.put, logs_kept=100)
    thread = threading.Thread(target=follower.run, args=(stop,), name="follower")

    def look() -> Any:
        while not posted.empty():
            posted.get()()
        return done()

    thread.start()
    try:
        until(look, what, LIMIT_S)
    finally:
        stop.set()
        thread.join(LIMIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("skip", [0, 1, 7], ids=["plain", "transactions", "compacted"])
def test_a_server_that_starts_shows_what_is_live_at_the_ledgers_end_and_nothing_before(
    log: Log, skip: int
) -> None:
    for number in range(1, 30):  # whose changelogs are long gone
        log.write(NAMES.ledger, *said(State(live=generation(number, 0))), skip=skip)
    log.write(NAMES.ledger, *said(State(live=generation(30, 2))), skip=skip)
    log.write(NAMES.changelog(30), *rows(2))
    host = Told()
    following(log, host, lambda: host.generation == 30, "generation 30 is shown")
    assert host.cutovers == [30]
    assert [state.live and state.live.number for state in host.states] == [30]
    assert [row["generation"] for row in host.statuses] == [30]
    assert len(host.system.generations()) == 30  # rows of the past are no past: all are shown
    assert host.store("users_ui").snapshot().num_rows == 2


def test_a_server_that_begins_anew_keeps_what_it_shows(log: Log) -> None:
    host = Told()
    for number in (1, 2, 3):
        log.write(NAMES.ledger, *said(State(live=generation(number, 0))))
    log.write(NAMES.changelog(3), *rows(1))
    following(log, host, lambda: host.generation == 3, "generation 3 is shown")
    following(log, host, lambda: len(host.states) >= 2, "the ledger was read again")
    assert host.cutovers == [3]
    assert [state.live and state.live.number for state in host.states] == [3, 3]
    assert host.store("users_ui").snapshot().num_rows == 1


@pytest.mark.parametrize("junk", [b"not JSON", b"[]", b"{}", b"\xff"], ids=repr)
def test_a_state_that_another_program_wrote_is_skipped_with_one_warning(
    log: Log, junk: bytes
) -> None:
    host = Told()
    log.write(NAMES.ledger, *said(State(live=generation(1, 0))))
    log.write(NAMES.changelog(2), *rows(3))

    def skipped() -> list[str]:
        return [one["what"] for one in lines if "cannot be parsed" in one["event"]]

    def went_on() -> bool:
        if host.generation == 1 and len(log.logs[NAMES.ledger]) == 3:
            log.write(NAMES.ledger, (STATUS_KEY, b"junk"), (STATE_KEY, junk))
        if skipped()[-1:] == ["the record with key b'state'"] and host.generation == 1:
            log.write(NAMES.ledger, (STATE_KEY, junk), *said(State(live=generation(2, 3))))
        return host.generation == 2

    with capture_logs() as lines:
        following(log, host, went_on, "what comes after it is followed")
    assert host.cutovers == [1, 2]
    assert sorted(skipped()) == ["the record with key b'state'", "the record with key b'status'"]


def test_what_comes_after_the_ledgers_end_is_acted_on(log: Log) -> None:
    host = Told()
    log.write(NAMES.ledger, *said(State(live=generation(1, 0))))

    def swapped() -> bool:
        if host.generation == 1 and not log.logs.get(NAMES.changelog(2)):
            log.write(NAMES.changelog(2), *rows(3))
            log.write(NAMES.ledger, *said(State(live=generation(2, 3))))
        return host.generation == 2

    following(log, host, swapped, "the swap is followed")
    assert host.cutovers == [1, 2]


def test_an_empty_ledger_is_no_error(log: Log) -> None:
    host = Told()

    def led() -> bool:
        if host.liveness.since_read_s is not None and not log.logs[NAMES.ledger]:
            log.write(NAMES.ledger, *said(State(live=generation(1, 0))))
        return host.generation == 1

    following(log, host, led, "the first state is followed")


def test_a_generation_seen_before_it_was_resolved_is_read_whole_before_it_is_shown(
    log: Log,
) -> None:
    host = Told()
    old = generation(1, 0)
    building = generation(2, resolved=False)
    log.write(NAMES.ledger, *said(State(live=old, building=building)))

    def seen() -> bool:
        if host.generation == 1 and not log.logs.get(NAMES.changelog(2)):
            # others have shown 500 of its rows already; it was complete with fewer
            log.write(NAMES.changelog(2), *rows(500))
            log.write(NAMES.ledger, *said(State(live=generation(2, 5))))
        return host.generation == 2

    shown: list[int] = []
    host.on_cutover = lambda: shown.append(host.seq)  # type: ignore[method-assign]
    following(log, host, seen, "generation 2 is shown")
    assert shown == [0, 500]


def test_a_changelog_that_is_made_later_is_measured_when_the_ledger_is_next_written(
    log: Log,
) -> None:
    host = Told()
    building = generation(2)
    log.write(NAMES.ledger, *said(State(live=generation(1, 0), building=building)))

    def seen() -> bool:
        if len(host.states) == 1:
            log.write(NAMES.changelog(2), *rows(500))
            log.write(NAMES.ledger, *said(State(live=replace(building, ready_at=5))))
        return host.generation == 2

    shown: list[int] = []
    host.on_cutover = lambda: shown.append(host.seq)  # type: ignore[method-assign]
    following(log, host, seen, "generation 2 is shown")
    assert shown == [0, 500]


NEWER = b'{"format": 3, "live": "means something else"}'
FOREIGN = [
    b"[]",
    b"{}",
    b"\xff",
    b'{"at": "noon"}',
    b'{"at": 99999999999999999}',
    b'{"ts": "noon"}',
]


def steps(*some: tuple[Callable[[], Any], Callable[[], Any]]) -> Callable[[], bool]:
    """Pairs of what must hold and what is done then; whether all is done."""
    left = list(some)

    def done() -> bool:
        while left and left[0][0]():
            left.pop(0)[1]()
        return not left

    return done


def nothing() -> None:
    """The last step."""


def rows_of(host: Catalog) -> int:
    return int(host.store("users_ui").snapshot().num_rows)


def logged(host: Catalog) -> list[str]:
    return [
        str(one) for one in host.store("orchestrator_logs").snapshot().column("msg").to_pylist()
    ]


def line(number: int, msg: str) -> tuple[bytes, bytes]:
    value = json.dumps({"ts": 1, "level": "INFO", "msg": msg}).encode()
    return f"orchestrator_logs/{number:012d}".encode(), value


def test_what_a_newer_leader_writes_does_not_end_the_follower(log: Log) -> None:
    host = Told()
    live = generation(1, 1)
    log.write(NAMES.ledger, *said(State(live=live)))
    log.write(NAMES.changelog(1), *rows(1))

    def newer() -> None:
        # the last row of a generation stands before the state that tells the format
        log.write(NAMES.ledger, (GENERATION_KEY + b"1", b'["?"]'), (STATE_KEY, NEWER))

    def speaks() -> None:
        for value in FOREIGN:
            log.write(NAMES.leader, (LEADER_KEY, value))
            log.write(NAMES.logs, (b"orchestrator_logs/2", value), (b"\xff", value))
        log.write(NAMES.logs, line(3, "of a newer leader"))
        log.write(NAMES.changelog(1), *rows(2)[1:])

    following(
        log,
        host,
        steps(
            (lambda: host.generation == 1, lambda: log.write(NAMES.logs, line(1, "before"))),
            (lambda: logged(host) == ["before"], newer),
            (lambda: "format 3" in host.stale_reason, speaks),
            (lambda: rows_of(host) == 2, nothing),
        ),
        "what it has goes on",
    )
    assert logged(host) == ["before"], "a newer leader's lines are not parsed"


def test_lines_that_were_left_out_beside_a_newer_leader_are_read_once_it_is_gone(log: Log) -> None:
    host = Told()
    log.write(NAMES.ledger, *said(State(live=generation(1, 0))), (STATE_KEY, NEWER))
    log.write(NAMES.logs, line(1, "meanwhile"))
    following(
        log,
        host,
        steps(
            (
                lambda: "format 3" in host.stale_reason,
                lambda: log.write(NAMES.ledger, *said(State(live=generation(1, 0)))),
            ),
            (lambda: logged(host) == ["meanwhile"], nothing),
        ),
        "the line is shown",
    )


def test_records_of_a_foreign_shape_are_left_out_and_that_is_said_once(log: Log) -> None:
    host = Told()
    log.write(NAMES.ledger, *said(State(live=generation(1, 0))))
    log.write(NAMES.ledger, (GENERATION_KEY + b"7", b"[]"), (GENERATION_KEY + b"8", b"{}"))
    for number, value in enumerate(FOREIGN):
        log.write(NAMES.leader, (LEADER_KEY, value))
        if value != b"{}":  # a line without cells is one
            log.write(NAMES.logs, (b"orchestrator_logs/%012d" % number, value))
        log.write(NAMES.logs, (b"control_raw/%012d" % number, value), (b"what/1", value))
    log.write(NAMES.logs, line(9, "after them"))
    with capture_logs() as said_of_it:
        following(log, host, lambda: "after them" in logged(host), "what comes after is shown")
    left_out = [one["topic"] for one in said_of_it if one["event"].startswith("skipped a record")]
    assert sorted(left_out) == sorted([NAMES.leader, NAMES.ledger, NAMES.logs])
    assert host.liveness.leader_silence_s is not None, "whoever beats leads"
    assert [row["generation"] for row in host.system.generations()] == [1]


def test_a_refused_server_that_begins_anew_goes_on_with_what_it_has(log: Log) -> None:
    host = Told()
    log.write(NAMES.ledger, *said(State(live=generation(1, 1))))
    log.write(NAMES.changelog(1), *rows(1))
    following(
        log,
        host,
        steps(
            (lambda: host.generation == 1, lambda: log.write(NAMES.ledger, (STATE_KEY, NEWER))),
            (lambda: "format 3" in host.stale_reason, log.fail.set),
            (
                lambda: not log.fail.is_set(),
                lambda: log.write(NAMES.changelog(1), *rows(2)[1:]),
            ),
            (lambda: rows_of(host) == 2, nothing),
        ),
        "later rows arrive",
    )
