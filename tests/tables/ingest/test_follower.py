"""The ledger follower: it reads the history but acts only on the state at the ledger's end."""

import json
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
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
from tables import orders
from tables.samples import CHOICE, user

NAMES = Names("crm")
LIMIT_S = 20


@dataclass(frozen=True)
class Record:
    """A message of a single-partition topic, or its end-of-partition event."""

    topic_name: str
    record_offset: int
    pair: tuple[bytes, bytes] = (b"", b"")
    end: bool = False

    def __len__(self) -> int:
        return len(self.pair[1])

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.end else None

    def topic(self) -> str:
        return self.topic_name

    def offset(self) -> int:
        return self.record_offset

    def key(self) -> bytes:
        return self.pair[0]

    def value(self) -> bytes:
        return self.pair[1]


class FakeKafka(Kafka):
    """Single-partition topics, served one record at a time, with end-of-partition events."""

    def __init__(self, *topics: str) -> None:
        super().__init__({"bootstrap.servers": "nowhere"})
        self.logs: dict[str, list[Record]] = {topic: [] for topic in topics}
        self.ends: dict[str, int] = {}  # end offsets, transaction markers included
        self.written = threading.Condition()
        self.fail = threading.Event()  # set: the next poll fails

    def write(self, topic: str, *pairs: tuple[bytes, bytes], skip: int = 0) -> None:
        """Append records; the `skip` offsets after each hold nothing that a consumer gets."""
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
        return FakeConsumer(self)


@dataclass
class FakeConsumer:
    """A consumer that gets one record per poll and end-of-partition events, as from librdkafka."""

    log: FakeKafka
    next_index: dict[str, int] = field(default_factory=dict)  # next record by topic
    reported_ends: dict[str, int] = field(
        default_factory=dict
    )  # end offset reported last, by topic

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.incremental_assign(places)

    def incremental_assign(self, places: Iterable[TopicPartition]) -> None:
        self.next_index |= {place.topic: 0 for place in places}

    def incremental_unassign(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            del self.next_index[place.topic]

    def get_watermark_offsets(self, place: TopicPartition, **_limit: float) -> tuple[int, int]:
        return 0, self.log.ends.get(place.topic, 0)

    def poll(self, _wait_s: float) -> Record | None:
        if self.log.fail.is_set():
            self.log.fail.clear()
            raise KafkaException(KafkaError(KafkaError.UNKNOWN))
        with self.log.written:
            for topic, next_index in self.next_index.items():
                if next_index < len(self.log.logs[topic]):
                    self.next_index[topic] += 1
                    return self.log.logs[topic][next_index]
                end = self.log.ends.get(topic, 0)
                if self.reported_ends.get(topic) != end:
                    self.reported_ends[topic] = end
                    return Record(topic, end, end=True)
        return None

    def consume(self, _most: int, _wait_s: float) -> list[Record]:
        return []

    def close(self) -> None:
        self.next_index = {}


class RecordingCatalog(Catalog):
    """A catalog that records the follower's calls."""

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
        """Rows are checked by each test itself."""

    def on_cutover(self, _replaced: Collection[str]) -> None:
        self.cutovers.append(self.generation)


@pytest.fixture
def log() -> FakeKafka:
    return FakeKafka(NAMES.ledger, NAMES.logs, NAMES.leader)


def generation_of(number: int, ready_at: int | None = None, *, resolved: bool = True) -> Generation:
    reading = {"users": Reading("users", "", {0: 0}, {0: -1})} if resolved else {}
    return Generation(number, CHOICE, 0.0, sources=reading, ready_at=ready_at)


def ledger_records(state: State) -> list[tuple[bytes, bytes]]:
    """Return the records a leader writes for a state."""
    live = state.live.number if state.live else 0
    row = {"generation": live, "state": "live", "requestedAt": 0}
    return [
        (STATE_KEY, json.dumps(to_json(state)).encode()),
        (STATUS_KEY, json.dumps({"state": "live", "generation": live}).encode()),
        (GENERATION_KEY + b"%d" % live, json.dumps(row).encode()),
    ]


def rows(count: int) -> list[tuple[bytes, bytes]]:
    return [(record.key(), record.value()) for record in map(user, range(count))]


def follow_until(log: FakeKafka, catalog: Catalog, done: Callable[[], Any], what: str) -> None:
    """Follow until `done`; posted callbacks run in this thread, as in a server's event loop."""
    stop = threading.Event()
    posted = queue.SimpleQueue[Callable[[], None]]()
    follower = LedgerFollower(log, NAMES, catalog, posted.put, logs_kept=100)
    thread = threading.Thread(target=follower.run, args=(stop,), name="follower")

    def poll_done() -> Any:
        while not posted.empty():
            posted.get()()
        return done()

    thread.start()
    try:
        until(poll_done, what, LIMIT_S)
    finally:
        stop.set()
        thread.join(LIMIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("skip", [0, 1, 7], ids=["plain", "transactions", "compacted"])
def test_a_starting_server_serves_only_the_generation_live_at_the_ledgers_end(
    log: FakeKafka, skip: int
) -> None:
    for number in range(1, 30):  # their changelogs are deleted
        log.write(NAMES.ledger, *ledger_records(State(live=generation_of(number, 0))), skip=skip)
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(30, 2))), skip=skip)
    log.write(NAMES.changelog(30), *rows(2))
    catalog = RecordingCatalog()
    follow_until(log, catalog, lambda: catalog.generation == 30, "generation 30 is served")
    assert catalog.cutovers == [30]
    assert [state.live and state.live.number for state in catalog.states] == [30]
    assert [row["generation"] for row in catalog.statuses] == [30]
    assert len(catalog.system.generations()) == 30  # the generations table keeps its history
    assert catalog.store("users_ui").snapshot().num_rows == 2


def test_each_changelog_is_decoded_by_the_spec_of_its_generation(log: FakeKafka) -> None:
    old = generation_of(1, 1)
    reading = {"orders": Reading("orders", "", {0: 0}, {0: -1})}
    new = Generation(2, orders.CHOICE, 0.0, sources=reading, ready_at=2, spec=orders.ORDERS)
    log.write(NAMES.ledger, *ledger_records(State(live=old, building=replace(new, ready_at=None))))
    log.write(NAMES.changelog(1), *rows(1))
    log.write(NAMES.changelog(2))
    catalog = RecordingCatalog()

    def swapped() -> bool:
        if catalog.generation == 1 and not log.logs.get(NAMES.changelog(2)):
            assert catalog.store("users_ui").snapshot().num_rows == 1
            records = [orders.order(0), orders.order(1, total="-0.01")]
            log.write(NAMES.changelog(2), *((one.key(), one.value()) for one in records))
            log.write(NAMES.ledger, *ledger_records(State(live=new, standby=old)))
        return catalog.generation == 2

    follow_until(log, catalog, swapped, "generation 2 is served")
    totals = catalog.store("orders_ui").snapshot().column("total").to_pylist()
    assert totals == [Decimal("12345678.90"), Decimal("-0.01")]
    assert "ordersTopic" in catalog.store("generations").schema.names


def test_a_restarted_follower_keeps_the_served_rows(log: FakeKafka) -> None:
    catalog = RecordingCatalog()
    for number in (1, 2, 3):
        log.write(NAMES.ledger, *ledger_records(State(live=generation_of(number, 0))))
    log.write(NAMES.changelog(3), *rows(1))
    follow_until(log, catalog, lambda: catalog.generation == 3, "generation 3 is served")
    follow_until(log, catalog, lambda: len(catalog.states) >= 2, "the ledger was read again")
    assert catalog.cutovers == [3]
    assert [state.live and state.live.number for state in catalog.states] == [3, 3]
    assert catalog.store("users_ui").snapshot().num_rows == 1


@pytest.mark.parametrize("junk", [b"not JSON", b"[]", b"{}", b"\xff"], ids=repr)
def test_a_state_of_another_program_is_skipped_with_one_warning(
    log: FakeKafka, junk: bytes
) -> None:
    catalog = RecordingCatalog()
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0))))
    log.write(NAMES.changelog(2), *rows(3))

    def skipped() -> list[str]:
        return [event["what"] for event in lines if "cannot be parsed" in event["event"]]

    def swapped() -> bool:
        if catalog.generation == 1 and len(log.logs[NAMES.ledger]) == 3:
            log.write(NAMES.ledger, (STATUS_KEY, b"junk"), (STATE_KEY, junk))
        if skipped()[-1:] == ["the record with key b'state'"] and catalog.generation == 1:
            log.write(
                NAMES.ledger, (STATE_KEY, junk), *ledger_records(State(live=generation_of(2, 3)))
            )
        return catalog.generation == 2

    with capture_logs() as lines:
        follow_until(log, catalog, swapped, "the records after it are followed")
    assert catalog.cutovers == [1, 2]
    assert sorted(skipped()) == ["the record with key b'state'", "the record with key b'status'"]


def test_records_after_the_ledgers_end_are_acted_on(log: FakeKafka) -> None:
    catalog = RecordingCatalog()
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0))))

    def swapped() -> bool:
        if catalog.generation == 1 and not log.logs.get(NAMES.changelog(2)):
            log.write(NAMES.changelog(2), *rows(3))
            log.write(NAMES.ledger, *ledger_records(State(live=generation_of(2, 3))))
        return catalog.generation == 2

    follow_until(log, catalog, swapped, "the swap is followed")
    assert catalog.cutovers == [1, 2]


def test_an_empty_ledger_is_valid(log: FakeKafka) -> None:
    catalog = RecordingCatalog()

    def first_state_followed() -> bool:
        if catalog.liveness.since_read_s is not None and not log.logs[NAMES.ledger]:
            log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0))))
        return catalog.generation == 1

    follow_until(log, catalog, first_state_followed, "the first state is followed")


def test_a_generation_first_read_unresolved_is_served_only_once_its_changelog_is_read_to_the_end(
    log: FakeKafka,
) -> None:
    catalog = RecordingCatalog()
    old = generation_of(1, 0)
    building = generation_of(2, resolved=False)
    log.write(NAMES.ledger, *ledger_records(State(live=old, building=building)))

    def swapped() -> bool:
        if catalog.generation == 1 and not log.logs.get(NAMES.changelog(2)):
            # other servers have shown 500 of its rows; it was complete with fewer
            log.write(NAMES.changelog(2), *rows(500))
            log.write(NAMES.ledger, *ledger_records(State(live=generation_of(2, 5))))
        return catalog.generation == 2

    served_seqs: list[int] = []
    catalog.on_cutover = lambda _replaced: served_seqs.append(catalog.seq)  # type: ignore[method-assign]
    follow_until(log, catalog, swapped, "generation 2 is shown")
    assert served_seqs == [0, 500]


def test_a_changelog_created_later_gets_its_end_offset_at_the_next_ledger_write(
    log: FakeKafka,
) -> None:
    catalog = RecordingCatalog()
    building = generation_of(2)
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0), building=building)))

    def swapped() -> bool:
        if len(catalog.states) == 1:
            log.write(NAMES.changelog(2), *rows(500))
            log.write(NAMES.ledger, *ledger_records(State(live=replace(building, ready_at=5))))
        return catalog.generation == 2

    served_seqs: list[int] = []
    catalog.on_cutover = lambda _replaced: served_seqs.append(catalog.seq)  # type: ignore[method-assign]
    follow_until(log, catalog, swapped, "generation 2 is shown")
    assert served_seqs == [0, 500]


NEWER = b'{"format": 5, "live": "means something else"}'
FOREIGN = [
    b"[]",
    b"{}",
    b"\xff",
    b'{"at": "noon"}',
    b'{"at": 99999999999999999}',
    b'{"ts": "noon"}',
]


def steps(*pairs: tuple[Callable[[], Any], Callable[[], Any]]) -> Callable[[], bool]:
    """Run each action once its condition holds; true after the last one."""
    left = list(pairs)

    def done() -> bool:
        while left and left[0][0]():
            left.pop(0)[1]()
        return not left

    return done


def do_nothing() -> None:
    """No action, for the last step."""


def row_count(catalog: Catalog) -> int:
    return int(catalog.store("users_ui").snapshot().num_rows)


def log_messages(catalog: Catalog) -> list[str]:
    return [
        str(msg) for msg in catalog.store("orchestrator_logs").snapshot().column("msg").to_pylist()
    ]


def line(number: int, msg: str) -> tuple[bytes, bytes]:
    value = json.dumps({"ts": 1, "level": "INFO", "msg": msg}).encode()
    return f"orchestrator_logs/{number:012d}".encode(), value


def test_records_of_a_newer_format_do_not_stop_the_follower(log: FakeKafka) -> None:
    catalog = RecordingCatalog()
    live = generation_of(1, 1)
    log.write(NAMES.ledger, *ledger_records(State(live=live)))
    log.write(NAMES.changelog(1), *rows(1))

    def write_newer_format() -> None:
        # the generation's row is written before the state that carries the format
        log.write(NAMES.ledger, (GENERATION_KEY + b"1", b'["?"]'), (STATE_KEY, NEWER))

    def write_newer_records() -> None:
        for value in FOREIGN:
            log.write(NAMES.leader, (LEADER_KEY, value))
            log.write(NAMES.logs, (b"orchestrator_logs/2", value), (b"\xff", value))
        log.write(NAMES.logs, line(3, "of a newer leader"))
        log.write(NAMES.changelog(1), *rows(2)[1:])

    follow_until(
        log,
        catalog,
        steps(
            (lambda: catalog.generation == 1, lambda: log.write(NAMES.logs, line(1, "before"))),
            (lambda: log_messages(catalog) == ["before"], write_newer_format),
            (lambda: "format 5" in catalog.stale_reason, write_newer_records),
            (lambda: row_count(catalog) == 2, do_nothing),
        ),
        "the served generation is still updated",
    )
    assert log_messages(catalog) == ["before"], "a newer leader's lines are not parsed"


def test_log_lines_skipped_under_a_newer_leader_are_read_after_it_is_gone(log: FakeKafka) -> None:
    catalog = RecordingCatalog()
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0))), (STATE_KEY, NEWER))
    log.write(NAMES.logs, line(1, "meanwhile"))
    follow_until(
        log,
        catalog,
        steps(
            (
                lambda: "format 5" in catalog.stale_reason,
                lambda: log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0)))),
            ),
            (lambda: log_messages(catalog) == ["meanwhile"], do_nothing),
        ),
        "the line is shown",
    )


def test_malformed_records_are_skipped_and_logged_once_per_topic(log: FakeKafka) -> None:
    catalog = RecordingCatalog()
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 0))))
    log.write(NAMES.ledger, (GENERATION_KEY + b"7", b"[]"), (GENERATION_KEY + b"8", b"{}"))
    for number, value in enumerate(FOREIGN):
        log.write(NAMES.leader, (LEADER_KEY, value))
        if value != b"{}":  # an empty log line is valid
            log.write(NAMES.logs, (b"orchestrator_logs/%012d" % number, value))
        log.write(NAMES.logs, (b"control_raw/%012d" % number, value), (b"what/1", value))
    log.write(NAMES.logs, line(9, "after them"))
    with capture_logs() as logged_events:
        follow_until(
            log,
            catalog,
            lambda: "after them" in log_messages(catalog),
            "the line after them is shown",
        )
    skipped_topics = [
        event["topic"] for event in logged_events if event["event"].startswith("skipped a record")
    ]
    assert sorted(skipped_topics) == sorted([NAMES.leader, NAMES.ledger, NAMES.logs])
    assert catalog.liveness.leader_silence_s is not None, "every heartbeat counts"
    assert [row["generation"] for row in catalog.system.generations()] == [1]


def test_a_restarted_follower_that_cannot_read_the_ledgers_format_goes_on_serving(
    log: FakeKafka,
) -> None:
    catalog = RecordingCatalog()
    log.write(NAMES.ledger, *ledger_records(State(live=generation_of(1, 1))))
    log.write(NAMES.changelog(1), *rows(1))
    follow_until(
        log,
        catalog,
        steps(
            (lambda: catalog.generation == 1, lambda: log.write(NAMES.ledger, (STATE_KEY, NEWER))),
            (lambda: "format 5" in catalog.stale_reason, log.fail.set),
            (
                lambda: not log.fail.is_set(),
                lambda: log.write(NAMES.changelog(1), *rows(2)[1:]),
            ),
            (lambda: row_count(catalog) == 2, do_nothing),
        ),
        "later rows arrive",
    )
