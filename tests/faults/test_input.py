"""B1 to B5: invalid input, unusual keys, tombstones, changed fields, a user with many rows."""

import json
import math
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from confluent_kafka import Message, TopicPartition
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from livejoin.core import changelog as rows
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import poll_batch
from rig import comparing, figures, oracle, protocol
from rig.produce import Producers
from rig.running import Running, running, until
from rig.watching import DATA, Watcher

SEED = 20261115
MAX_MESSAGE_BYTES = 8 << 20
SOURCES = ("users", "accounts")
READ_S = 300  # takes 10 s on an idle machine


def topics(name: str) -> dict[str, str]:
    return {source: f"{name}.{source}" for source in SOURCES}


def producers(kafka: Kafka, name: str) -> Producers:
    for topic in topics(name).values():
        kafka.create_topic(topic, {"max.message.bytes": str(MAX_MESSAGE_BYTES)}, partitions=2)
    return Producers(kafka, topics(name))


def all_rows_viewer(live: Running) -> Watcher:
    """A viewer of several generations, whose userIds may come from any topic."""
    return Watcher(live.url, min_rows=lambda _tag, _source, _asked: 0, tag=lambda _user: "")


def wait_read(live: Running, sent: Producers) -> None:
    until(lambda: live.records_read() == sent.count, f"all records are read, seed {SEED}", READ_S)


def expect_oracle(live: Running, sent: Producers, join: str = "left") -> oracle.Expected:
    """Check O1 and O5: every table, and the counts of all records."""
    wait_read(live, sent)
    truth = oracle.expected(sent.acknowledged, join)
    wrong = oracle.differences({name: live.table(name) for name in truth.tables}, truth)
    _count(truth, wrong)
    assert not wrong, f"seed {SEED}, {len(wrong)} rows: {str(wrong[:3])[:3000]}"
    rejects = [row["source"] for row in truth.tables["rejects_ui"].values()]
    counts = live.request("api/v1/status")["sources"]
    for source in SOURCES:
        assert counts[source] == {
            "read": len(sent.acknowledged[source]),
            "rows": len(truth.tables[f"{source}_ui"]),
            "rejected": rejects.count(source),
            "tombstones": truth.tombstones[source],
        }
    return truth


def _count(truth: oracle.Expected, wrong: list[oracle.Difference]) -> None:
    rows, cells = figures.cells_of(truth.tables)
    figures.now().seeded(SEED)
    figures.now().checked(rows, cells, oracle.lost(wrong), oracle.wrong_cells(wrong))


def expect_viewer_equal(watcher: Watcher, truth: oracle.Expected) -> None:
    """Check that the viewer has the same rows, and found no errors before."""
    comparing.expect_seen(watcher, truth, READ_S)
    assert not watcher.wrong, watcher.wrong[:3]
    assert (watcher.connects, watcher.closed) == (1, [])


def expect_no_failures(live: Running) -> None:
    """Check that no query died and no build failed."""
    lines = live.table("orchestrator_logs").values()
    assert not [row for row in lines if row["level"] != "INFO"]
    assert live.request("api/v1/status")["state"] == "live"


def swap(live: Running, **message: str) -> float:
    """Request another generation and wait for it; returns the seconds of its catch-up."""
    before = live.request("api/v1/status")["generation"]
    live.request("api/v1/control", message)
    until(
        lambda: live.request("api/v1/status")["generation"] != before, f"{message} is live", READ_S
    )
    rows = live.request("api/v1/generations")["generations"]
    (took,) = (row["catchUpSeconds"] for row in rows if row["state"] == "live")
    return float(took)


# --- B1

# One in 100 broken records is one of these, and one in 5,000 is the huge one: ten times the bytes
# of the clean run. The others are as small as good records.
HEAVY = (
    b'{"userId":' * 5000 + b"1" + b"}" * 5000,
    b'{"userId": "x", "age": ' + b"9" * 10**5 + b"}",
)
HUGE = b'{"userId": "' + b"x" * (5 << 20) + b'"}'
BROKEN = (
    b'{"userId": "x", "name": "cu', b'[{"userId": "x"}]', b"42", b"null", b"", b"\xff\xfe\xfd",
    b'{"userId": "\xc3\x28"}', b'{"userId": "x", "age": NaN, "balance": NaN}',
    b'{"userId": "d0", "userId": "dN", "name": "n", "name": "last one"}',
    b'{"userId": "x"} {"userId": "y"}', b'{"userId": {"a": 1}}',
    b'{"userId": "x", "age": "abc", "balance": "abc"}',
)  # fmt: skip


def _broken(number: int) -> bytes:
    if number % 5000 == 99:
        return HUGE
    if number % 100 == 49:
        return HEAVY[number // 100 % 2]
    return BROKEN[number % len(BROKEN)].replace(b"dN", b"d%d" % number)


def _good(number: int) -> tuple[str, dict[str, Any]]:
    user = f"u{number // 2}"
    if number % 2:
        return "accounts", {"userId": user, "accountType": "current", "balance": number / 4}
    return "users", {"userId": user, "name": f"Name {number}", "email": "a@b.example", "age": 33}


def _send_many(to: Producers, records: Iterator[tuple[str, Any]]) -> None:
    for number, (source, value) in enumerate(records):
        to.send(source, value)
        if number % 2000 == 1999:
            to.flush()  # the producer queue is limited
    to.flush()


def test_b1_as_many_broken_records_as_good_ones(kafka: Kafka, tmp_path: Path) -> None:
    each = 100_000
    clean, mixed = producers(kafka, "b1.clean"), producers(kafka, "b1.mixed")
    _send_many(clean, (_good(number) for number in range(2 * each)))
    _send_many(
        mixed,
        (
            one
            for number in range(each)
            for one in (_good(number), (SOURCES[number // 7 % 2], _broken(number)))
        ),
    )
    settings: dict[str, Any] = {"topics": topics("b1.mixed"), "rejects_kept": each}
    with running(kafka, tmp_path, name="b1", **settings) as live:
        live.wait_live()  # a first generation with both kinds of records, for the JVM to warm up
        clean_s = swap(live, **_choice("b1.clean"))
        wait_read(live, clean)
        mixed_s = swap(live, **_choice("b1.mixed"))
        truth = expect_oracle(live, mixed)
        rejects = live.table("rejects_ui")
        assert len(rejects) == len(truth.tables["rejects_ui"]) > 0.9 * each
        for row in rejects.values():
            assert row["topic"] == topics("b1.mixed")[row["source"]]
            assert row["reason"]
        expect_no_failures(live)
    slower = clean_s / mixed_s
    figures.now().landed(broken_records=each).note(
        f"{2 * each} records, clean {clean_s:.1f} s ({2 * each / clean_s:,.0f}/s),"
        f" half of them broken {mixed_s:.1f} s ({2 * each / mixed_s:,.0f}/s), {slower:.2f} of it"
    )
    assert slower >= 0.5


def _choice(name: str) -> dict[str, str]:
    return {f"{source}Topic": topic for source, topic in topics(name).items()}


# --- B2

KEYS = (
    *("null", "", '""', '" "', '"\\t"', '"  "', '"null"', '"a"', '"A"', '" a"', '"a "'),
    *(f'"{"k" * 10_240}{end}"' for end in "xyz"),
    *('"é"', '"e\u0301"', '"\\u00e9"', '"𝄞"', '"\\ud834\\udd1e"', '"\u202etfel"', '"\\u0000"'),
    *('"👩‍👩‍👧"', '"=HYPERLINK()"', '"-users-0"', '"0-0"', '"a/b+c"', '"\\"]}"'),
    *("0", "-0", '"0"', "1", '"1"', "1.0", "1.50", "1e3", "1E3", "1000", "12345678901234567890"),
    *("0.1", "true", '"true"', "false"),
)
RECORD_KEYS: tuple[str | bytes | None, ...] = (
    *(None, b"", b"\xff\xfe", b"\x00", "a", "\u202e", "k" * 10_240, '{"userId": "b"}', b"[" * 5000),
)


def _with_any_key(to: Producers, dice: random.Random, count: int) -> None:
    for number in range(count):
        source, key = dice.choice(("users", "accounts", "accounts")), dice.choice(KEYS)
        cell = f'"name": "n{number}"' if source == "users" else f'"balance": {number}'
        value = f'{{"userId": {key}, {cell}}}' if key else f"{{{cell}}}"
        to.send(source, value, key=dice.choice(RECORD_KEYS))
    to.flush()


def test_b2_keys_of_every_kind(kafka: Kafka, tmp_path: Path) -> None:
    sent, dice = producers(kafka, "b2"), random.Random(SEED)
    _with_any_key(sent, dice, 1000)
    with running(kafka, tmp_path, name="b2", topics=topics("b2")) as live:
        live.wait_live()
        with all_rows_viewer(live) as watcher:
            _with_any_key(sent, dice, 1000)
            expect_viewer_equal(watcher, expect_oracle(live, sent))
            for join in ("inner", "left_outer"):
                swap(live, joinType=join)
                expect_viewer_equal(watcher, expect_oracle(live, sent, join))
        expect_no_failures(live)
    found = {
        oracle.parse("users", f'{{"userId": {key}}}'.encode())["userId"] for key in KEYS if key
    }
    figures.now().note(
        f"{sent.count} records, {len(found)} different keys in {len(KEYS)} spellings"
    )


# --- B3


def test_b3_tombstones_among_the_records(kafka: Kafka, tmp_path: Path) -> None:
    sent, dice = producers(kafka, "b3"), random.Random(SEED)
    each = 50_000
    with running(kafka, tmp_path, name="b3", topics=topics("b3")) as live:
        live.wait_live()
        with all_rows_viewer(live) as watcher:
            left = {"record": each, "tombstone": each}
            while sum(left.values()):
                kind = dice.choices(list(left), list(left.values()))[0]
                left[kind] -= 1
                user, source = f"u{dice.randrange(1000)}", dice.choices(SOURCES, (1, 4))[0]
                row = {"userId": user, "name": f"n{left[kind]}", "balance": left[kind]}
                sent.send(source, row if kind == "record" else None, key=user)
                if sum(left.values()) % 2000 == 0:
                    sent.flush()
            truth = expect_oracle(live, sent)
            expect_viewer_equal(watcher, truth)
        expect_no_failures(live)
    assert sum(truth.tombstones.values()) == each
    figures.now().note(f"{sent.count} records, of which tombstones {dict(truth.tombstones)}")


# --- B4


def _as_documented(number: int, dice: random.Random) -> dict[str, Any]:
    user = f"u{dice.randrange(200)}"
    return {"userId": user, "name": f"n{number}", "email": "e", "age": number % 90,
            "accountType": "current", "balance": number / 4}  # fmt: skip


def _with_extra_fields(number: int, dice: random.Random) -> dict[str, Any]:
    more = {f"field{i}": i for i in range(100)}
    odd = {"Age": "x", "userid": [1], "nested": {"userId": {"age": "abc"}}, "": None}
    return {**odd, **_as_documented(number, dice), **more}


def _with_missing_fields(number: int, dice: random.Random) -> dict[str, Any]:
    row = _as_documented(number, dice)
    for name in dice.sample(sorted(row), dice.randint(1, len(row))):
        del row[name]
    return row


def _with_other_types(number: int, dice: random.Random) -> dict[str, Any]:
    """Other types, converted without loss."""
    return _as_documented(number, dice) | dice.choice((
        {"age": "30"}, {"age": 30.0}, {"name": 5, "accountType": 5}, {"email": True},
        {"balance": "1.5"}, {"balance": 7}, {"userId": 1000 + number % 50}, {"userId": 1.5},
    ))  # fmt: skip


def _unreadable(number: int, dice: random.Random) -> dict[str, Any]:
    wrong = dice.choice(({}, [], [1], {"value": 1}))
    return _as_documented(number, dice) | dice.choice((
        {"age": "thirty", "balance": "much"}, {"age": 30.5, "balance": wrong}, {"userId": wrong},
        {"name": wrong, "accountType": wrong}, {"age": 2**63, "balance": True},
    ))  # fmt: skip


STAGES: dict[str, Callable[[int, random.Random], dict[str, Any]]] = {
    "as agreed": _as_documented,
    "fields added": _with_extra_fields,
    "fields removed": _with_missing_fields,
    "retyped, nothing lost": _with_other_types,
    "retyped": _unreadable,
    "as agreed again": _as_documented,
}


def test_b4_other_fields_in_mid_stream(kafka: Kafka, tmp_path: Path) -> None:
    sent, dice = producers(kafka, "b4"), random.Random(SEED)
    each, number = 2000, 0
    rejects = {"": 0}
    with running(kafka, tmp_path, name="b4", topics=topics("b4")) as live:
        live.wait_live()
        with all_rows_viewer(live) as watcher:
            for stage, record in STAGES.items():
                for _ in range(each):
                    number += 1
                    sent.send(dice.choice(SOURCES), record(number, dice))
                sent.flush()
                truth = expect_oracle(live, sent)
                expect_viewer_equal(watcher, truth)
                rejects[stage] = len(truth.tables["rejects_ui"])
        expect_no_failures(live)
    found = [*map(len, (truth.tables["users_ui"], truth.tables["accounts_ui"]))]
    assert sum(found) + rejects["as agreed again"] == sent.count == each * len(STAGES)
    figures.now().note(f"{sent.count} records, {found} rows, rejects after each stage {rejects}")
    before = rejects["retyped, nothing lost"]
    assert (before, rejects["retyped"], rejects["as agreed again"]) == (0, each, each)


# --- B5

BIG = "big"
BIG_ROWS = 10_000
RATE = 100
WARM_S, MEASURED_S = 20, 60


class Stopwatch:
    """A viewer of all rows that measures the delay of those of other users."""

    def __init__(self, live: Running) -> None:
        self.sent: dict[int, float] = {}
        self.delays_s: dict[int, float] = {}
        self._address = live.url.replace("http", "ws") + "api/v1/live"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failed: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        protocols = [Subprotocol("livejoin.v1")]
        try:
            with connect(
                self._address, subprotocols=protocols, max_size=None, proxy=None
            ) as socket:
                socket.send(json.dumps({"subscribe": list(DATA)}))
                while not self._stop.is_set():
                    try:
                        data = socket.recv(0.2)
                    except TimeoutError:
                        continue
                    assert isinstance(data, bytes)
                    self._take(data, time.perf_counter())
        except Exception as error:  # noqa: BLE001 - reported by the test
            self.failed.append(error)

    def _take(self, data: bytes, now: float) -> None:
        column = {"users_ui": "age", "accounts_ui": "balance"}
        for part in protocol.parse_frame(data)[1]:
            if part.table in column:
                with pa.ipc.open_stream(part.payload) as stream:
                    numbers = stream.read_all().column(column[part.table]).to_pylist()
                for number in numbers:
                    if number in self.sent:
                        self.delays_s.setdefault(int(number), now - self.sent[int(number)])


def _at_rate(seconds: float, per_second: float, send: Callable[[int], None]) -> None:
    began = time.perf_counter()
    for number in range(round(seconds * per_second)):
        if (wait := began + number / per_second - time.perf_counter()) > 0:
            time.sleep(wait)  # the rate of the load
        send(number)


def _percentiles(samples: list[float]) -> dict[str, float]:
    samples = sorted(samples)
    ranks = {f"p{share}": math.ceil(len(samples) * share / 100) - 1 for share in (50, 90, 99)}
    return {name: round(samples[rank] * 1000, 1) for name, rank in ranks.items()} | {
        "worst": round(samples[-1] * 1000, 1)
    }


class Load:
    """Records of other users at a steady rate, and those of the big user beside them."""

    def __init__(self, to: Producers, watch: Stopwatch) -> None:
        self._to = to
        self._watch = watch
        self._serial = 1

    def others(self, seconds: float) -> range:
        """Send for `seconds`; returns the numbers sent."""
        first = self._serial

        def send(_: int) -> None:
            number = self._serial
            self._serial += 1
            user = f"u{number % 1000}"
            self._watch.sent[number] = time.perf_counter()
            if number % 5:
                self._to.send("accounts", {"userId": user, "balance": number})
            else:
                self._to.send("users", {"userId": user, "name": "n", "age": number})

        _at_rate(seconds, RATE, send)
        self._to.flush()
        return range(first, self._serial)

    def big(self, seconds: float) -> None:
        def send(number: int) -> None:
            if number % 10:
                self._to.send("users", {"userId": BIG, "name": f"n{number}"})
            else:
                self._to.send("accounts", {"userId": BIG, "accountType": f"t{number}"})

        _at_rate(seconds, 10, send)


def test_b5_one_user_with_ten_thousand_rows(kafka: Kafka, tmp_path: Path) -> None:
    sent = producers(kafka, "b5")
    # so that neither measurement contains the end of a batch
    settings: dict[str, Any] = {"topics": topics("b5"), "spark": {"batch_s": 1800}}
    with running(kafka, tmp_path, name="b5", **settings) as live:
        live.wait_live()
        with Stopwatch(live) as watch:
            load = Load(sent, watch)
            load.others(WARM_S)
            numbers = {"without": load.others(MEASURED_S)}
            began = time.monotonic()
            _send_many(sent, (("users", {"userId": BIG, "name": f"{n}"}) for n in range(BIG_ROWS)))
            sent.send("accounts", {"userId": BIG, "accountType": "first"})
            sent.flush()
            wait_read(live, sent)
            grown_s = time.monotonic() - began
            big_thread = threading.Thread(target=load.big, args=(MEASURED_S,))
            big_thread.start()
            numbers["with"] = load.others(MEASURED_S)
            big_thread.join()
            sent.flush()
            began = time.monotonic()
            wait_read(live, sent)
            behind_s = time.monotonic() - began
            until(lambda: len(watch.delays_s) == len(watch.sent) or watch.failed, "all samples")
            assert not watch.failed
        expect_oracle(live, sent)
        expect_no_failures(live)
    in_changelog = _changelog_delays_s(kafka, "b5", sent)
    at_viewer = {
        name: _percentiles([watch.delays_s[n] for n in span]) for name, span in numbers.items()
    }
    figures.now().note(f"{BIG_ROWS} rows read in {grown_s:.1f} s, behind {behind_s:.1f} s")
    for name, span in numbers.items():
        logged = _percentiles([in_changelog[number] for number in span])
        print(f"{name:>8}: at the viewer {at_viewer[name]} ms, in the changelog {logged} ms")
    assert at_viewer["with"]["p99"] <= 2 * at_viewer["without"]["p99"]


def _changelog_delays_s(kafka: Kafka, name: str, sent: Producers) -> dict[int, float]:
    """Return the seconds from each record of the other users to its mark in the changelog."""
    numbers: dict[rows.Position, tuple[int, int]] = {}
    for source, column in (("users", "age"), ("accounts", "balance")):
        for one in sent.acknowledged[source]:
            number = json.loads(one.value or b"{}").get(column)
            if number:
                where = rows.Position(source, one.partition, one.offset)
                numbers[where] = (number, one.timestamp)
    took: dict[int, float] = defaultdict(float)
    for message in _messages(kafka, Names(name).changelog(1)):
        mark = rows.marked_position(message.key() or b"")
        if mark in numbers:
            number, at = numbers[mark]
            took[number] = (message.timestamp()[1] - at) / 1000
    assert len(took) == len(numbers)
    return took


def _messages(kafka: Kafka, topic: str) -> Iterator[Message]:
    consumer = kafka.reader("faults")
    try:
        where = TopicPartition(topic, 0, 0)
        consumer.assign([where])
        end, at = consumer.get_watermark_offsets(where, timeout=15)[1], 0
        while at < end:
            found = poll_batch(consumer, 10_000, 5)
            assert found
            yield from found
            at = (found[-1].offset() or 0) + 1
    finally:
        consumer.close()
